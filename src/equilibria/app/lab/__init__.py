"""The lab: theory and live networks on one page in the browser. `server` says how it is served, `rooms` what it shows."""
