"""Client certificates for tests, made by openssl.

    made = Maker(folder)
    cert = made.cert("a")                      self-signed, valid now
    made.cert("b", begins=-86400, ends=-60)    seconds from now
    ca = made.cert("ca", ca=True); made.cert("c", issuer=ca)
    stack.session(cert=cert.chain)             cert.pem, cert.key: paths
    cert.fingerprint                           SHA-256, lower hex
"""
# SPDX-License-Identifier: Apache-2.0
import hashlib
import os
import ssl
import subprocess
import time
import urllib.parse

CA = """
[ca]
default_ca = us
[us]
new_certs_dir = .
database = index.txt
default_md = sha256
policy = any
rand_serial = yes
unique_subject = no
[any]
commonName = supplied
[plain]
basicConstraints = CA:%s
"""


def stamp(seconds):
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))


class Cert:
    def __init__(self, pem, key):
        self.pem, self.key, self.chain = pem, key, (pem, key)
        with open(pem, encoding="ascii") as f:
            self.text = f.read()
        self.der = ssl.PEM_cert_to_DER_cert(self.text)
        self.fingerprint = hashlib.sha256(self.der).hexdigest()
        self.escaped = urllib.parse.quote(self.text, safe="")


class Maker:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.write("index.txt", "")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def openssl(self, *words):
        done = subprocess.run(["openssl", *words], cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, (words, done.stderr)

    def cert(self, name, begins=-60, ends=86400, extensions="", ca=False,
             issuer=None):
        by = (["-cert", issuer.pem, "-keyfile", issuer.key] if issuer
              else ["-selfsign", "-keyfile", name + ".key"])
        self.write(name + ".cnf",
                   CA % ("TRUE" if ca else "FALSE") + extensions)
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt",
                     "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                     f"/CN={name}", "-keyout", name + ".key", "-out",
                     name + ".csr")
        self.openssl("ca", "-batch", "-notext", *by, "-config",
                     name + ".cnf", "-extensions", "plain", "-in",
                     name + ".csr", "-startdate", stamp(begins), "-enddate",
                     stamp(ends), "-out", name + ".pem")
        return Cert(os.path.join(self.folder, name + ".pem"),
                    os.path.join(self.folder, name + ".key"))
