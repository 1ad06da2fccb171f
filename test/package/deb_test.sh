#!/usr/bin/env bash
# Checks the packages that scripts/package made: lintian, the same again from a second build, and a clean root in which
# they are installed, used as the README says, removed and purged. Also what the library exports, and the systemd unit.
#   deb_test.sh DIRECTORY
# Needs root, lintian, mmdebstrap and systemd. Not part of the test suite: it downloads a root, and compiles everything anew.
set -euo pipefail
packages=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
clean_up() {
  mountpoint -q "$work/root/proc" && umount "$work/root/proc"
  rm -rf "$work"
}
trap clean_up EXIT
step() { echo "== $*"; }

step "lintian"
lintian --fail-on error,warning --tag-display-limit 0 --suppress-tags-from-file "$root/packaging/debian/lintian-accepted" \
  "$packages"/*.deb
for package in "$packages"/*.deb; do
  echo "$(basename "$package"): $(dpkg-deb --contents "$package" | grep -vc '/$') files"
done

step "the library exports what is ours"
dpkg-deb --extract "$packages"/libholdfast0*.deb "$work/library"
library=$(find "$work/library" -name 'libholdfast.so.*' -type f)
nm -DC --defined-only "$library" | sed -E 's/^[0-9a-f]+ . //' | sort -u >"$work/exported"
echo "$(wc -l <"$work/exported") symbols"
# As package/shared_library does; that one also compares them with the headers.
foreign=$(grep -vE '^([^(<]* )?holdfast::|(^|^[^(]* )(std|__gnu_cxx)::|^(typeinfo|typeinfo name|vtable) for (holdfast|std)::' \
  "$work/exported" | grep -vE '^typeinfo (name )?for [a-z]+ (\(\*\))?\(' || true)
[[ -z $foreign ]] || {
  echo "$foreign"
  exit 1
}

step "the unit"
# With a program that exists here.
dpkg-deb --extract "$packages"/holdfast_*.deb "$work/command"
sed 's|/usr/bin/holdfast|/bin/true|' "$(find "$work/command" -name holdfast-serve.service)" >"$work/holdfast-serve.service"
systemd-analyze verify --man=no "$work/holdfast-serve.service"

step "the manual pages"
# They have no date, so that the pages of one version are always the same.
warnings=$(for page in "$work"/command/usr/share/man/man1/*.gz; do
  zcat "$page" | mandoc -Tlint -W warning
done | grep -v 'missing date' || true)
[[ -z $warnings ]] || {
  echo "$warnings"
  exit 1
}

step "a second build gives the same packages"
# Not from the compiler cache, and in another directory.
git -C "$root" worktree list >/dev/null
git clone --quiet --shared "$root" "$work/again"
(cd "$work/again" && CCACHE_DISABLE=1 ./scripts/package >/dev/null)
for package in "$packages"/*.deb; do
  cmp "$package" "$work/again/build/packages/$(basename "$package")"
done
rm -rf "$work/again"

step "a clean root"
# Of the release that they were made on: they depend on its libraries.
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mmdebstrap --quiet --variant=minbase --include=g++,cmake,make,pkg-config,libasio-dev,python3 "$release" "$work/root"
cp "$packages"/*.deb "$work/root/tmp/"
cp -r "$here/consumer.cpp" "$here/consumer_installed" "$work/root/tmp/"
mount -t proc proc "$work/root/proc"
inside() { chroot "$work/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
inside sh -ec 'apt-get -qq update; apt-get -qq install --yes --no-install-recommends /tmp/*.deb >/dev/null'

step "the README's examples there"
# shellcheck disable=SC2016 # expanded inside
inside sh -ec '
  holdfast run --ttl 30s nightly-report -- sh -c "echo fence \$HOLDFAST_FENCE"
  holdfast run --no-wait nightly-report -- echo "no other process held the lock"
  holdfast task run --method report -- sh -c "echo progress=0.5 >&3; echo done"
  holdfast task list
  holdfast --system run -n backup -- true
  test "$(stat -c %a:%G /var/lib/holdfast)" = 2770:holdfast
  for page in holdfast holdfast-run holdfast-queue; do test -s /usr/share/man/man1/$page.1.gz; done
  id=$(holdfast task add mail); holdfast task work mail --once -- true; holdfast queue wait mail "$id" >/dev/null'
# shellcheck disable=SC2016 # expanded inside
inside sh -ec '
  cd /tmp
  cmake -S consumer_installed -B by-cmake >/dev/null && cmake --build by-cmake >/dev/null && ./by-cmake/consumer
  cmake -S consumer_installed -B static -Dholdfast_USE_STATIC_LIBS=ON >/dev/null && cmake --build static >/dev/null
  ./static/consumer
  ldd by-cmake/consumer | grep -q libholdfast
  if ldd static/consumer | grep -q libholdfast; then exit 1; fi
  g++ -std=c++20 consumer.cpp -o by-hand $(pkg-config --cflags --libs holdfast) && ./by-hand'

# shellcheck disable=SC2016 # expanded inside
inside sh -ec '
  grep -q lock.acquire /usr/share/holdfast/openrpc.json
  test -x /usr/share/holdfast/clients/holdfast_client.mjs
  python3 /usr/share/holdfast/clients/holdfast_client.py | grep "the task is completed"
  PYTHONPATH=/usr/share/holdfast/clients python3 -c "import holdfast_client"
  test -d /usr/share/holdfast/clients/__pycache__'

step "removal keeps the store, purge deletes it, and what belongs to the service"
# shellcheck disable=SC2016 # expanded inside
inside sh -ec '
  install -d -m 700 /var/lib/private/holdfast-serve
  ln -s private/holdfast-serve /var/lib/holdfast-serve
  echo token >/var/lib/private/holdfast-serve/serve.token
  # As `systemctl enable` does.
  wants=/etc/systemd/system/multi-user.target.wants
  mkdir -p $wants
  ln -s /lib/systemd/system/holdfast-serve.service $wants/holdfast-serve.service
  apt-get -qq remove --yes holdfast >/dev/null
  test -e /var/lib/holdfast/holdfast.db
  test -e /var/lib/holdfast-serve/serve.token
  test ! -e /usr/share/holdfast
  test ! -e /usr/bin/holdfast
  apt-get -qq purge --yes holdfast >/dev/null
  test ! -e /var/lib/holdfast
  test ! -e /var/lib/private/holdfast-serve
  test ! -h /var/lib/holdfast-serve
  test ! -h $wants/holdfast-serve.service'
echo "ok"
