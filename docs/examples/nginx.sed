# The template of ./run as the nginx of a host:
#
#	sed -f docs/examples/nginx.sed nginx/nginx.conf.in >/etc/waybill/nginx.conf
#
# Public on port 443, certificate and key in /etc/waybill/tls, the pages of
# nginx/ and docs/ in /usr/local/share/waybill, nginx's folder from
# waybill-nginx.service. Change what is otherwise with you.
# SPDX-License-Identifier: Apache-2.0
s|listen 127\.0\.0\.1:@PORT@|listen 443|
s|@ADMIN_PORT@|8444|
s|@ROOT@|/usr/local/share/waybill|
s|@RUN@/nginx\.pid|/run/waybill-nginx/nginx.pid|
s|@RUN@|/run/waybill|
s|"@VAR@/tls/|"/etc/waybill/tls/|
s|"@VAR@/log/nginx\.log"|stderr|
s|@VAR@/tmp/|/var/lib/waybill-nginx/|
s|worker_processes 2;|worker_processes auto;|
/@AS_ROOT@/d
