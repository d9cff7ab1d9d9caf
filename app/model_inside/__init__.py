"""One model taken apart: layers, operators, builder beside trace."""
