#!/usr/bin/env bash
# Records how often sysbench's own generators draw each number: what tests/against_sysbench.rs compares with.
# Needs sysbench 1.0.20; no server. Run it in this folder: ./record.sh
set -euo pipefail
record() { # FILE FUNCTION HIGH OPTION...
  local file=$1 draw=$2 high=$3
  shift 3
  sysbench --rand-seed=1 --events=1 --verbosity=0 "$@" draws.lua --draw="$draw" --high="$high" run > "$file"
}
record special.txt special 1000
record special_wide.txt special 1000 --rand-spec-iter=3 --rand-spec-pct=20 --rand-spec-res=50
record gaussian.txt gaussian 1000
record gaussian_few.txt gaussian 1000 --rand-spec-iter=3
record pareto.txt pareto 1000
record pareto_steep.txt pareto 1000 --rand-pareto-h=0.1
record uniform.txt uniform 1000
