"""Files that survive a kill while they are written, and are continued later."""
