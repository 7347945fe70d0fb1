# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# For tests of scripts/check_*.py on tiny checkouts. The test says what a checkout starts from
# (`prepare`, in $work), which script runs on it ($check) and where its files lie ($below).
#
#   source expect.sh SOURCE_DIR
project=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect STATUS TEXT FILE LINE: of a checkout in which FILE holds LINE.
expect() {
  local wanted=$1 text=$2 file=$work/$below/$3 status=0
  prepare
  mkdir -p "$(dirname "$file")"
  echo "$4" >"$file"
  python3 -B "$project/scripts/$check" "$work" >"$work/log" 2>&1 || status=1
  [ "$status" = "$wanted" ] && grep -qF "$text" "$work/log" && return
  echo "FAIL: $3 with $4: expected status $wanted and '$text', got $status and" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}

python3 -B "$project/scripts/$check" --help >"$work/log" 2>&1 && grep -qF "$check [ROOT]" "$work/log" || {
  echo "FAIL: $check --help says no usage" >&2
  exit 1
}
