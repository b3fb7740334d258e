"""The format of times on Django's pages: with seconds and time zone, as logs need. FORMAT_MODULE_PATH refers to it."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s e"
