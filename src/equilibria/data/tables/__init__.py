"""One reader of tables, whatever file, frame or array people have them in."""
