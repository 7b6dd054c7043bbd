# Converts run files to schema 1, which had no checksums. Use:
# . tests/support/schema.sh
to_schema_1() { # RUN.db
    sqlite3 "$1" "ALTER TABLE sample RENAME TO old;
CREATE TABLE sample(
  series_id INTEGER NOT NULL REFERENCES series,
  step INTEGER NOT NULL,
  value BLOB NOT NULL, -- packed little-endian float32, layer-major
  PRIMARY KEY(series_id, step)
) STRICT;
INSERT INTO sample SELECT series_id, step, value FROM old; DROP TABLE old;
PRAGMA user_version = 1"
}
