/**
 * A private Exim for a test: configuration, spool, and log in a temporary directory, listening on one loopback port with STARTTLS. It
 * queues mail for one domain and delivers none of it; its log shows what it accepted and rejected.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort } from '../kit/free-ports.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { peerFolder, startPeer } from './peer-process.ts';
import { type SetClock, setClock } from './set-clock.ts';
import { missingUnpacked, unpacked } from './unpacked-peers.ts';

const PROGRAM = 'usr/sbin/exim4';
const USER = 'Debian-exim';

export interface PrivateExim {
  port: number;
  /** Its clock, if one was requested. */
  clock: SetClock | undefined;
  /** Recipients of the accepted messages, one for each copy. */
  taken(): string[];
  /** Lines of its log that contain this text. */
  said(pattern: RegExp): number;
  /** Its connections, and those rejected by the connection limit. */
  connections(): { total: number; refused: number };
  log(): string;
  stop(): Promise<void>;
}

/** Routers, and the transport of one that returns all of its mail. */
const bouncing = (port: number): string[] => [
  'begin routers',
  'returned:',
  'driver = redirect',
  'domains = +ours',
  'allow_fail',
  'data = :fail: this mailbox was closed',
  'back:',
  'driver = manualroute',
  'transport = smtp',
  'route_list = * 127.0.0.1',
  'self = send',
  'begin transports',
  'smtp:',
  'driver = smtp',
  `port = ${port}`,
  'allow_localhost',
  'hosts_avoid_tls = *',
];

export const noExim = (): string | false => missingUnpacked({ programs: [PROGRAM], users: [USER] });

export async function startExim(options: {
  domain: string;
  settings?: string[];
  /** Statements of the ACL for MAIL. */
  atMail?: string[];
  ownClock?: boolean;
  /** It tries to deliver accepted mail, which always fails, and the bounces go to this port. */
  bouncesTo?: number;
}): Promise<PrivateExim> {
  const folder = peerFolder('exim');
  const at = (name: string): string => path.join(folder, name);
  const port = await freePort();
  // Exim re-executes itself as its own user, which cannot access the directory it was unpacked to.
  copyFileSync(unpacked(PROGRAM), at('exim4'));
  chmodSync(at('exim4'), 0o755);
  mkdirSync(at('spool'));
  const { key, cert } = testCertificate();
  writeFileSync(at('key.pem'), key);
  writeFileSync(at('cert.pem'), cert);
  execFileSync('chown', [USER, at('spool'), at('key.pem')]);
  const clock = options.ownClock ? setClock(folder) : undefined;
  const lines = [
    `exim_path = ${at('exim4')}`,
    `spool_directory = ${at('spool')}`,
    `log_file_path = ${at('spool')}/%slog`,
    `pid_file_path = ${at('exim.pid')}`,
    `primary_hostname = mx.${options.domain}`,
    'local_interfaces = 127.0.0.1',
    `daemon_smtp_ports = ${port}`,
    'host_lookup =',
    'rfc1413_query_timeout = 0s',
    `keep_environment = ${clock ? 'LD_PRELOAD : ^FAKETIME' : ''}`,
    ...(options.bouncesTo === undefined ? ['queue_only'] : []),
    'deliver_drop_privilege',
    'check_spool_space = 0',
    'check_log_space = 0',
    `tls_certificate = ${at('cert.pem')}`,
    `tls_privatekey = ${at('key.pem')}`,
    'tls_advertise_hosts = *',
    'log_selector = +received_recipients +smtp_connection +incoming_port',
    `domainlist ours = ${options.domain}`,
    'acl_smtp_mail = mail',
    'acl_smtp_rcpt = rcpt',
    ...(options.settings ?? []),
    'begin acl',
    'mail:',
    ...(options.atMail ?? []),
    'accept',
    'rcpt:',
    'require domains = +ours',
    'message = 550 5.7.1 relay not permitted',
    'accept',
    ...(options.bouncesTo === undefined ? [] : bouncing(options.bouncesTo)),
    '',
  ];
  writeFileSync(at('exim.conf'), lines.join('\n'));
  const peer = await startPeer([at('exim4'), '-C', at('exim.conf'), '-bdf'], { folder, port, env: clock?.env ?? {} });
  const log = (): string => (existsSync(at('spool/mainlog')) ? readFileSync(at('spool/mainlog'), 'utf8') : '');
  const said = (pattern: RegExp): number =>
    log()
      .split('\n')
      .filter((line) => pattern.test(line)).length;
  // The check whether it listens is its first connection.
  const before = said(/SMTP connection from /);
  return {
    port,
    clock,
    log,
    said,
    taken: () => [...log().matchAll(/ <= .* for (.+)$/gm)].flatMap(([, recipients]) => recipients!.split(' ')),
    connections: () => ({
      total: said(/SMTP connection from .*\(TCP\/IP connection count/) - before,
      refused: said(/refused: too many connections from that IP address/),
    }),
    stop: peer.stop,
  };
}
