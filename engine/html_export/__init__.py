"""A recorded session as one HTML file that shows it anywhere, without a server and without network."""
