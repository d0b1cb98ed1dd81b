"""The report about a run: its history read from the logs, plots, findings in sentences, one HTML
page."""
