"""Jobs: who asked, how they run, how their failures look."""
