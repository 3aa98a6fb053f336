"""What a browser shows: markup and the style of pages, values in short, graphs as SVG."""
