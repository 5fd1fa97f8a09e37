#!/bin/sh
# The command line beside the systemd unit: as its user, with its settings. For root; the folder it runs in is the data directory,
# so that file names must be absolute.
exec systemd-run --quiet --pipe --wait --collect --property=User=postrider --property=UMask=0077 \
  --property=WorkingDirectory=/var/lib/postrider --property=EnvironmentFile=-/etc/postrider.env \
  --setenv=POSTRIDER_DATA_DIR=/var/lib/postrider \
  /opt/postrider/node_modules/.bin/node /opt/postrider/bin/postrider.js "$@"
