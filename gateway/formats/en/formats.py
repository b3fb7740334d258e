"""How Django's pages write moments: to the second and with the zone, as a log must. Found by FORMAT_MODULE_PATH."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s e"
