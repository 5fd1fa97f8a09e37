#!/bin/sh
# Runs the command line with the user and settings of the systemd unit. Run it as root. The working directory is the data directory,
# so file names must be absolute.
exec systemd-run --quiet --pipe --wait --collect --property=User=postrider --property=UMask=0077 \
  --property=WorkingDirectory=/var/lib/postrider --property=EnvironmentFile=-/etc/postrider.env \
  --setenv=POSTRIDER_DATA_DIR=/var/lib/postrider \
  /opt/postrider/node_modules/.bin/node /opt/postrider/bin/postrider.js "$@"
