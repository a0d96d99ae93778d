#!/usr/bin/env bash
# Makes a certificate for the webhook's service, signed by an authority of its own, into a folder. Prints the
# authority as `caBundle` needs it. cert-manager does the same and renews it.
#
#   caBundle=$(examples/kubernetes/certificate.sh FOLDER)
#   kubectl -n highwater create secret tls highwater-tls --cert=FOLDER/tls.crt --key=FOLDER/tls.key
#   sed "s/caBundle: .*/caBundle: $caBundle/" examples/kubernetes/webhook.yaml | kubectl apply -f -
set -euo pipefail
cd "${1:?usage: certificate.sh FOLDER [NAMES]}"
names=${2:-DNS:highwater.highwater.svc}
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=highwater-authority -keyout ca.key -out ca.crt \
	2>/dev/null
openssl req -newkey rsa:2048 -nodes -subj /CN=highwater.highwater.svc -keyout tls.key -out tls.csr 2>/dev/null
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out tls.crt \
	-extfile <(echo "subjectAltName=$names") 2>/dev/null
rm -f ca.key tls.csr
base64 -w0 ca.crt
