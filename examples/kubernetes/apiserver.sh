#!/usr/bin/env bash
# Compiles the API server of Kubernetes 1.20 from Debian 12's source package, for test.sh, which needs no container
# engine. Takes ten minutes on two cores and 3 GB.
#
#   apt-get install dpkg-dev golang-go golang-github-modern-go-reflect2-dev
#   examples/kubernetes/apiserver.sh FOLDER
#
# The program is FOLDER/kube-apiserver.
set -euo pipefail

mkdir -p "${1:?usage: apiserver.sh FOLDER}/lists"
folder=$(realpath "$1")
cd "$folder"

# Sources come from the mirror of this machine's packages, whose own lists stay as they are.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
echo "deb-src $mirror bookworm main" >sources.list
apt() {
	apt-get -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::State::lists="$folder/lists" "$@"
}
apt update
apt source --download-only kubernetes
dpkg-source --no-check -x kubernetes_*.dsc source

export GOPATH=$folder/source/.go GOCACHE=$folder/cache GO111MODULE=off GOPROXY=off CGO_ENABLED=0
mkdir -p "$GOPATH/src/k8s.io"
ln -sfn ../../.. "$GOPATH/src/k8s.io/kubernetes"
cd "$GOPATH/src/k8s.io/kubernetes"

# The vendored copy ends programs of Go 1.18 and later with a fault.
rm vendor/github.com/modern-go/reflect2/*.{go,s}
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} vendor/github.com/modern-go/reflect2

# The one source that the package lacks and its own Makefile makes.
go build -o "$folder/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
inputs=$(grep -rl --include='*.go' '+k8s:openapi-gen=' vendor/k8s.io/*/ pkg cmd plugin |
	grep -vE 'code-generator|sample-|kube-openapi|gengo|_test.go' | xargs -n1 dirname | sort -u |
	sed -e 's,//,/,' -e 's,^,k8s.io/kubernetes/,' | paste -sd,)
"$folder/openapi-gen" --logtostderr -i "$inputs" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
	-h hack/boilerplate/boilerplate.generatego.txt -r "$folder/violations"

version=k8s.io/component-base/version
go build -ldflags "-s -w -X $version.gitVersion=v1.20.2 -X $version.gitMajor=1 -X $version.gitMinor=20" \
	-o "$folder/kube-apiserver" ./cmd/kube-apiserver
