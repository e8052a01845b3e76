"""The policies, a file each: which requests join a step, and which rows leave."""
