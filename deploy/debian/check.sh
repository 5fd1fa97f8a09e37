#!/bin/sh
# Tests a built package with the tools of Debian's archive: piuparts installs, upgrades, and purges it, and autopkgtest runs tests/ with it. As root,
# with mmdebstrap, piuparts, and autopkgtest:
#   sh deploy/debian/check.sh release/postrider_1.0.0-1_amd64.deb
set -eu
package=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
suite=bookworm
work=$(mktemp -d)
testbed=$work/testbed
clean() {
  for place in dev/pts dev proc; do umount "$testbed/$place" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mmdebstrap --quiet --variant=minbase --include=adduser,ca-certificates "$suite" "$work/base.tar.gz"
piuparts --basetgz "$work/base.tar.gz" --distribution "$suite" --no-eatmydata --log-level info "$package"

mkdir -p "$testbed" "$work/source"
tar -xzf "$work/base.tar.gz" -C "$testbed"
mount -t proc proc "$testbed/proc"
mount --bind /dev "$testbed/dev"
mount -t devpts devpts "$testbed/dev/pts"
cp /etc/resolv.conf "$testbed/etc/"
chroot "$testbed" apt-get update -qq
cp -r "$here" "$work/source/debian"
autopkgtest --no-built-binaries "$package" "$work/source" -- chroot "$testbed"
