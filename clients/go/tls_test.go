package askd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"askd.example/go"
	"askd.example/go/askdv1"
)

// certify makes a certificate and its key, signed by another or by itself, and writes both as PEM files.
func certify(t *testing.T, folder, name string, authority *tls.Certificate) (certificate tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: name},
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: authority == nil, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, any(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	check(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: signed},
		name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		check(t, os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600))
	}
	certificate, err = tls.LoadX509KeyPair(filepath.Join(folder, name+".pem"), filepath.Join(folder, name+".key"))
	check(t, err)
	return certificate
}

func TestATLSServerThatDemandsACertificateIsShownOne(t *testing.T) {
	ctx, folder := within(t, time.Minute), t.TempDir()
	authority := certify(t, folder, "ca", nil)
	certify(t, folder, "server", &authority)
	mine := certify(t, folder, "mine", &authority)
	in := func(name string) string { return filepath.Join(folder, name) }
	s := serve(t, "--tls-cert", in("server.pem"), "--tls-key", in("server.key"), "--client-ca", in("ca.pem"))
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.Leaf)
	shown := s.client(t, askd.WithTLS(&tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{mine}}))
	_, err := shown.Keys.WhoAmI(ctx, &askdv1.WhoAmIRequest{})
	check(t, err)
	for _, config := range []*tls.Config{{RootCAs: trusted}, {Certificates: []tls.Certificate{mine}}, nil} {
		_, err := s.client(t, askd.WithTLS(config), askd.WithPatience(0)).Keys.WhoAmI(ctx, &askdv1.WhoAmIRequest{})
		refused(t, err, askd.CodeUnavailable)
	}
	_, err = askd.NewClient(s.address, askd.WithKey("no\nkey"))
	equal(t, err != nil, true)
}
