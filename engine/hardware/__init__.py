"""Machines and models as numbers: specifications, ceilings, shapes, the roofline, step costs."""
