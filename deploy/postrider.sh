#!/bin/sh
# Runs the command line. For root it uses the user and settings of the systemd unit, and the data directory as the working directory, so
# file names must be absolute. For other users it runs with their own environment and directory, for example to call the API.
set -e
program=/opt/postrider/bin/postrider.js
node=/opt/postrider/node_modules/.bin/node
settings=/etc/postrider/postrider.env
if [ "$(id -u)" -ne 0 ]; then
  exec "$node" "$program" "$@"
fi
if [ -d /run/systemd/system ]; then
  exec systemd-run --quiet --pipe --wait --collect --property=User=postrider --property=UMask=0077 \
    --property=WorkingDirectory=/var/lib/postrider --property="EnvironmentFile=-$settings" \
    --setenv=POSTRIDER_DATA_DIR=/var/lib/postrider "$node" "$program" "$@"
fi
# Without systemd, for example in a container.
set -a
POSTRIDER_DATA_DIR=/var/lib/postrider
if [ -f "$settings" ]; then . "$settings"; fi
cd /var/lib/postrider
exec setpriv --reuid=postrider --regid=postrider --init-groups "$node" --disable-sigusr1 "$program" "$@"
