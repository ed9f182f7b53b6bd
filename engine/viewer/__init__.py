"""`endstop view`: the web page over record files, read only. A catalog of the files, a text index, and a server."""
