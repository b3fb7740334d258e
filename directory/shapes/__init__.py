"""Value types of the directory app: kinds, records, attribute updates, value rules, and the proposal."""
