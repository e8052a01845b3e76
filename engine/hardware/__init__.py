"""Machines and models as numbers: GPU specifications, ceilings, shapes, the roofline, step costs."""
