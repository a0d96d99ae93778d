#!/usr/bin/env bash
# Submits jobs to a Slurm cluster of one node on this machine, with Highwater as the plugin's server.
#
#   apt-get install slurmctld slurmd slurm-client lua-socket
#   examples/slurm/test.sh PATH_OF_HIGHWATER
#
# Needs root and no GPU: /dev/null stands for the device. Everything is in a temporary folder.
set -euo pipefail

highwater=$(realpath "${1:?usage: test.sh PATH_OF_HIGHWATER}")
here=$(cd "$(dirname "$0")" && pwd)
for program in slurmctld slurmd sbatch; do
	if ! command -v "$program" >/dev/null; then
		echo "left out: no $program on PATH; apt-get install slurmctld slurmd slurm-client lua-socket" >&2
		exit 1
	fi
done

work=$(mktemp -d)
host=$(hostname -s)
export SLURM_CONF=$work/slurm.conf
children=()

finish() {
	status=$?
	if [ "$status" != 0 ]; then
		tail -n 20 "$work"/*.log >&2 || true
	fi
	# A job that outlives slurmctld would be reported to it for minutes.
	scancel --user=root 2>/dev/null || true
	for _ in $(seq 50); do
		[ -n "$(squeue --noheader 2>/dev/null)" ] || break
		sleep 0.1
	done
	kill "${children[@]}" 2>/dev/null || true
	for _ in $(seq 50); do
		kill -0 "${children[@]}" 2>/dev/null || break
		sleep 0.1
	done
	kill -9 "${children[@]}" 2>/dev/null || true
	wait
	rm -rf "$work"
}
trap finish EXIT

# A port that nobody listens on, and the next.
port=$(awk 'BEGIN { srand(); print 20000 + int(rand() * 10000) }')
mkdir "$work/state" "$work/spool"
cat >"$work/slurm.conf" <<END
ClusterName=highwater
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=1
GresTypes=gpu,shard
JobSubmitPlugins=lua
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:t4:1,shard:14 Feature=t4
PartitionName=gpu Nodes=$host Default=YES State=UP
END
# A T4 has 14.6 GiB for one process.
cat >"$work/gres.conf" <<END
NodeName=$host Name=gpu Type=t4 File=/dev/null
NodeName=$host Name=shard Count=14 File=/dev/null
END
# A machine that is busy with other tests answers late; sbatch itself waits for 10 s.
timeout=6
sed -e "s,/etc/slurm/,$work/," -e "s,/run/highwater/highwater.sock,$work/socket," \
	-e "s,timeout = 2,timeout = $timeout," \
	"$here/job_submit.lua" >"$work/job_submit.lua"
cp "$here/highwater.lua" "$work"

serve() {
	"$highwater" serve --socket "$work/socket" >"$work/highwater.log" 2>&1 &
	server=$!
	children+=("$server")
	wait_for "the server" test -S "$work/socket"
}

wait_for() {
	what=$1
	shift
	for _ in $(seq 600); do
		if "$@" >/dev/null 2>&1; then
			return
		fi
		sleep 0.1
	done
	echo "FAILED: waited a minute for $what" >&2
	exit 1
}

slurmctld -D -i >/dev/null 2>&1 &
children+=($!)
slurmd -D >/dev/null 2>&1 &
children+=($!)
serve
is_idle() { sinfo --noheader --format=%t | grep -q idle; }
wait_for "the node" is_idle

passed=0

fail() {
	echo "FAILED: $1" >&2
	exit 1
}

# submit STATUS COMMENT OPTION...: leaves what sbatch printed in $printed and the job's number in $job.
submit() {
	status=$1 comment=$2
	shift 2
	found=0
	printed=$(sbatch --parsable --output=/dev/null --comment="$comment" "$@" --wrap "sleep 30" 2>&1) || found=$?
	job=$(tail -n 1 <<<"$printed")
	[ "$found" = "$status" ] || fail "sbatch ended with $found instead of $status: $printed"
}

# has TEXT: it is among what sbatch printed.
has() {
	grep -qF -- "$1" <<<"$printed" || fail "no \"$1\" in: $printed"
	passed=$((passed + 1))
}

# gets TEXT: it is among what Slurm has recorded of the job.
gets() {
	scontrol show job "$job" | grep -qF -- "$1" || fail "no \"$1\" in: $(scontrol show job "$job")"
	passed=$((passed + 1))
}

runs() { [ "$(squeue --noheader --jobs="$1" --format=%T)" = RUNNING ]; }

fits="highwater: model=resnet50 batch=48"
submit 1 "highwater: model=llama-3.1-8b batch=1" --gres=gpu:t4:1
has "Does not fit on a T4: llama-3.1-8b at batch 1"
has "Invalid generic resource"
echo "refused: $printed"
submit 1 "highwater: model=llama-3.1-8b batch=1" --constraint=t4
has "Does not fit on a T4: llama-3.1-8b at batch 1"

submit 0 "$fits"
has "resnet50 at batch 48 fits on a T4"
gets "TresPerNode=gres:shard:6"
wait_for "job $job" runs "$job"
submit 0 "$fits" --gres=shard:1
gets "TresPerNode=gres:shard:6"
wait_for "job $job, on the same GPU" runs "$job"
submit 0 "highwater: {\"model\": \"resnet50\", \"batch\": 48}" --gres=shard:2
has "It gets --gres=shard:6"
sleep 2
[ "$(squeue --noheader --states=RUNNING --format=%i | wc -l)" = 2 ] || fail "14 shards are 2 jobs of 6"
gets "Reason=Resources"
squeue
scancel --user=root

submit 0 "$fits" --gres=gpu:t4:1
has "--gres=shard:6 is enough"
gets "TresPerNode=gres:gpu:t4:1"
submit 0 "$fits" --gres=gpu:t4
has "--gres=shard:6 is enough"
submit 0 "$fits" --gpus=1
has "--gres=shard:6 is enough"
submit 0 "$fits" --gres=shard
gets "TresPerNode=gres:shard:6"
submit 0 "$fits" --gres=shard:9
gets "TresPerNode=gres:shard:9"
submit 0 "highwater: model=resnet50 batch=153" --gres=shard:3
has "not sure"
gets "TresPerNode=gres:shard:3"
submit 0 "nothing for us" --gres=shard:3
gets "TresPerNode=gres:shard:3"
! grep -q . <<<"${printed/$job/}" || fail "printed for a job that did not ask: $printed"
submit 0 "highwater: model=resnet5000" --gres=shard:3
has "did not check this job"
submit 0 "highwater: resnet50" --gres=shard:3
has "is not KEY=VALUE"
# The node has one.
submit 1 "highwater: model=llama-3.1-8b batch=1" --gres=gpu:2
has "has no gpus="
scancel --user=root

# Without a server, or with one that never answers, jobs are queued as they are.
kill -STOP "$server"
begun=$(date +%s)
submit 0 "highwater: model=llama-3.1-8b batch=1" --gres=gpu:t4:1
has "did not check this job: no answer"
[ $(($(date +%s) - begun)) -lt 30 ] || fail "a server that does not answer holds jobs up"
kill -CONT "$server"
kill "$server"
wait "$server"
submit 0 "highwater: model=llama-3.1-8b batch=1" --gres=gpu:t4:1
has "did not check this job: no server"
serve
submit 1 "highwater: model=llama-3.1-8b batch=1" --gres=gpu:t4:1
has "Does not fit"

echo "$passed passed, 0 failed"
