#!/bin/sh
# Starts the service once on an empty directory and stops it, so that the image has Node's compile cache, which every later start
# reads: the file system may be read-only then.
set -e
folder=$(mktemp -d)
POSTRIDER_DATA_DIR=$folder/data POSTRIDER_HTTP_PORT=0 POSTRIDER_HTTP_HOST=127.0.0.1 POSTRIDER_SMTP_PORT=0 \
  POSTRIDER_SMTP_HOST=127.0.0.1 POSTRIDER_LOG_LEVEL=error POSTRIDER_MIN_FREE_BYTES=0 node bin/postrider.js serve >/dev/null &
service=$!
until [ -s "$folder/data/serving.json" ]; do
  kill -0 "$service"
  sleep 0.1
done
kill -TERM "$service"
wait "$service"
rm -r "$folder"
