#!/usr/bin/env bash
# Sends pods to a real API server of Kubernetes whose webhook is Highwater behind nginx, as webhook.yaml has them.
#
#   apt-get install etcd-server nginx-light openssl
#   examples/kubernetes/test.sh PATH_OF_HIGHWATER PATH_OF_KUBE_APISERVER
#
# Needs kubectl as well, and neither a container engine nor a node: no pod runs. Debian's source package `kubernetes`
# has the API server; docs/schedulers.md has how to compile it. Everything is in a temporary folder.
set -euo pipefail

usage="usage: test.sh PATH_OF_HIGHWATER PATH_OF_KUBE_APISERVER"
highwater=$(realpath "${1:?$usage}")
apiserver=$(realpath "${2:?$usage}")
here=$(cd "$(dirname "$0")" && pwd)
for program in etcd nginx openssl kubectl; do
	if ! command -v "$program" >/dev/null; then
		echo "left out: no $program on PATH" >&2
		exit 1
	fi
done

work=$(mktemp -d)
children=()

finish() {
	status=$?
	if [ "$status" != 0 ]; then
		tail -n 20 "$work"/*.log >&2 || true
	fi
	for child in "${children[@]}"; do
		kill "$child" 2>/dev/null || true
	done
	wait
	rm -rf "$work"
}
trap finish EXIT

start() {
	"$@" >"$work/$(basename "$1").log" 2>&1 &
	children+=($!)
}

wait_for() {
	what=$1
	shift
	local deadline=$((SECONDS + 30))
	while [ "$SECONDS" -lt "$deadline" ]; do
		if "$@" >/dev/null 2>&1; then
			return
		fi
		sleep 0.1
	done
	echo "FAILED: waited 30 s for $what" >&2
	exit 1
}

# Ports that nobody listens on.
port=$(awk 'BEGIN { srand(); print 20000 + int(rand() * 10000) }')
etcd_at=http://127.0.0.1:$port
api_port=$((port + 2))
web_port=$((port + 3))
tls_port=$((port + 4))

start etcd --data-dir "$work/etcd" --listen-client-urls "$etcd_at" --advertise-client-urls "$etcd_at" \
	--listen-peer-urls "http://127.0.0.1:$((port + 1))"
openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
echo 'secret,admin,1,system:masters' >"$work/tokens.csv"
start "$apiserver" --etcd-servers "$etcd_at" --bind-address 127.0.0.1 --secure-port "$api_port" \
	--cert-dir "$work/certificates" --token-auth-file "$work/tokens.csv" --authorization-mode AlwaysAllow \
	--service-account-issuer https://localhost --service-account-key-file "$work/accounts.key" \
	--service-account-signing-key-file "$work/accounts.key" --service-cluster-ip-range 10.0.0.0/24 \
	--disable-admission-plugins ServiceAccount

mkdir "$work/tls"
ca=$("$here/certificate.sh" "$work/tls" IP:127.0.0.1)
# The configuration of nginx as it is in the ConfigMap.
sed -n '/nginx.conf: |/,/^---/p' "$here/webhook.yaml" | sed -e '1d;$d' -e 's/^    //' \
	-e "s, /var/cache/nginx/, $work/,; s,/etc/tls,$work/tls,; s,listen 8443,listen 127.0.0.1:$tls_port," \
	-e "s,127.0.0.1:8080,127.0.0.1:$web_port," >"$work/nginx.conf"
start nginx -c "$work/nginx.conf" -g "daemon off;"
start "$highwater" serve --listen "127.0.0.1:$web_port"

kubectl() {
	command kubectl --server "https://127.0.0.1:$api_port" --insecure-skip-tls-verify --token secret "$@"
}
# No controller makes the account of a namespace here, and so pods are created without one.
wait_for "the API server" kubectl get namespace default
# Its own services have no addresses here: the webhook is called by its address.
sed -e "s,service: {namespace.*,url: https://127.0.0.1:$tls_port/v1/admission," -e "s,caBundle: .*,caBundle: $ca," \
	"$here/webhook.yaml" >"$work/webhook.yaml"
kubectl apply -f "$work/webhook.yaml"
kubectl create namespace team
kubectl label namespace team highwater.dev/admission=enabled

passed=0

fail() {
	echo "FAILED: $1" >&2
	exit 1
}

# has TEXT: it is in $printed.
has() {
	grep -qF -- "$1" <<<"$printed" || fail "no \"$1\" in: $printed"
	passed=$((passed + 1))
}

# pod STATUS SED-SCRIPT: creates pod.yaml with changes. What kubectl printed is in $printed.
pod() {
	found=0
	kubectl -n team delete pod train --ignore-not-found --force --grace-period=0 >/dev/null 2>&1
	printed=$(sed -e "$2" "$here/pod.yaml" | kubectl -n team create -f - 2>&1) || found=$?
	[ "$found" = "$1" ] || fail "kubectl ended with $found instead of $1: $printed"
}

# gets TEXT: it is in the pod as it is stored.
gets() {
	printed=$(kubectl -n team get pod train -o json)
	has "$1"
}

lacks() {
	printed=$(kubectl -n team get pod train -o json)
	! grep -qF -- "$1" <<<"$printed" || fail "\"$1\" in: $printed"
	passed=$((passed + 1))
}

# A webhook takes a moment to be in force.
is_called() (
	pod 0 ""
	kubectl -n team get pod train -o json | grep gpumem
)
wait_for "the webhook" is_called

pod 0 ""
gets '"nvidia.com/gpumem": "'
gets '"highwater.dev/answer": "resnet50 at batch 48 fits on a T4'
grep -E 'gpumem|answer"' <<<"$printed"

pod 1 "s/model=.*/model=llama-3.1-8b batch=1/"
has 'admission webhook "pods.highwater.dev" denied the request: Does not fit on a T4: llama-3.1-8b at batch 1'
echo "$printed"

# The same fits on the other GPU of the cluster, where no node is selected.
pod 0 "s/model=.*/model=llama-3.1-8b batch=1 precision=bf16 lora=q_proj,v_proj/; /nodeSelector/d; /product/d"
gets '"highwater.dev/answer"'

pod 0 "s/job: .*/job: model=resnet50 batch=48\n    highwater.dev\/request: memory/"
lacks gpumem
gets '"nvidia.com/gpu.memory"'

pod 0 "s/batch=48/batch=153/; s/ optimizer=adamw//"
has "Warning: resnet50 at batch 153"
has "not sure"
lacks gpumem

pod 0 "s/resnet50/resnet5000/"
has "Warning: Highwater did not check this pod"
lacks gpumem

pod 0 "/highwater.dev/d"
lacks gpumem

# A limit of the user's that is too low.
pod 0 "s,limits: .*,limits: {nvidia.com/gpu: 1\, nvidia.com/gpumem: 1000},"
has "Warning: Highwater: container train may need"

# failurePolicy: Ignore.
kill "${children[-1]}"
wait "${children[-1]}"
pod 0 "s/model=.*/model=llama-3.1-8b batch=1/"
lacks gpumem

echo "$passed passed, 0 failed"
