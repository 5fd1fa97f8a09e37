/**
 * Private instances of the compared systems on loopback: a counting sink, Postfix, which may hold its mail or have it signed through
 * OpenDKIM, and Haraka with two workers and its DKIM plugin. Both accept mail unencrypted, or as submission: with STARTTLS and AUTH. Needs
 * root (Postfix), Debian's postfix, opendkim and sasl2-bin, and for Haraka a folder into which npm can install it (below the temporary
 * directory).
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Child, onEnd, pause, run, start, stop, WORK, waitForPort } from './lib.ts';

const DOMAIN = 'bench.example';
const DEPS = path.join(WORK, 'deps');

function write(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

export interface Sink {
  port: number;
  seen(): number;
  /** Resolves with true when `count` messages have been received. */
  reached(count: number, timeoutMs: number): Promise<boolean>;
  quiet(): Promise<number>;
}

/** Postfix's smtp-sink: discards and counts. */
/** Counts and discards messages; listens only on `host`. */
export async function startSink(port: number, host = '127.0.0.1'): Promise<Sink> {
  const user = process.getuid?.() === 0 ? ['-u', 'postfix'] : [];
  const child = start('smtp-sink', [...user, '-c', '-m', '4096', `${host}:${port}`, '1024']);
  let seen = 0;
  let tail = '';
  let waiting: { count: number; resolve(reached: boolean): void }[] = [];
  child.process.stdout?.on('data', (data) => {
    tail = (tail + data).slice(-400);
    const at = tail.lastIndexOf('mesg=');
    const found = at < 0 ? null : /^mesg=(\d+)/.exec(tail.slice(at));
    if (found) seen = Math.max(seen, Number(found[1]));
    for (const one of waiting) if (seen >= one.count) one.resolve(true);
    waiting = waiting.filter((one) => seen < one.count);
  });
  await waitForPort(port);
  return {
    port,
    seen: () => seen,
    reached: (count, timeoutMs) =>
      seen >= count
        ? Promise.resolve(true)
        : Promise.race([
            new Promise<boolean>((resolve) => waiting.push({ count, resolve })),
            pause(timeoutMs).then(() => false),
          ]),
    quiet: async () => {
      for (;;) {
        const before = seen;
        await pause(200);
        if (seen === before) return seen;
      }
    },
  };
}

function dkimKey(): string {
  const file = path.join(WORK, 'dkim.pem');
  if (!existsSync(file)) execFileSync('openssl', ['genrsa', '-traditional', '-out', file, '2048'], { stdio: 'ignore' });
  return file;
}

/** OpenDKIM as a signing milter on a unix socket (over TCP both lose 80 ms per message to delayed acknowledgements). */
async function startOpendkim(): Promise<string> {
  const folder = path.join(WORK, 'opendkim');
  const socket = path.join(folder, 'sock');
  rmSync(folder, { recursive: true, force: true });
  write(
    path.join(folder, 'opendkim.conf'),
    `Syslog no\nMode s\nCanonicalization relaxed/relaxed\nDomain ${DOMAIN}\nSelector s1\nKeyFile ${dkimKey()}\nRequireSafeKeys no\nSocket local:${socket}\nUMask 000\nInternalHosts 127.0.0.1\nOversignHeaders From\n`,
  );
  const child = start('opendkim', ['-f', '-x', path.join(folder, 'opendkim.conf')]);
  for (let i = 0; i < 100 && !existsSync(socket); i += 1) await pause(50);
  if (!existsSync(socket)) throw new Error(`opendkim: ${child.err}`);
  return socket;
}

/** The login for submission to these systems. */
export const PEER_LOGIN = { username: `bench@${DOMAIN}`, password: 'bench-secret' };

interface Certificate {
  cert: string;
  key: string;
}

/** EC P-256, as Postrider's. */
function certificate(): Certificate {
  const cert = path.join(WORK, 'tls-cert.pem');
  const key = path.join(WORK, 'tls-key.pem');
  if (!existsSync(key)) {
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30'];
    execFileSync('openssl', ['req', '-x509', ...curve, '-subj', `/CN=${DOMAIN}`, '-keyout', key, '-out', cert], {
      stdio: 'ignore',
    });
  }
  return { cert, key };
}

export interface PeerOptions {
  /** Name of its folder. */
  name: string;
  port: number;
  sinkPort: number;
  dkim?: boolean;
  /** Accepts mail with STARTTLS and AUTH. */
  submission?: boolean;
  /** Keeps accepted mail. */
  hold?: boolean;
}

export interface Postfix {
  /** Discards held mail. */
  clear(): Promise<unknown>;
}

/** Returns the settings that make Postfix a submission service: TLS, and one user in a Cyrus SASL database. */
function submissionSettings(folder: string): Record<string, string> {
  const { cert, key } = certificate();
  const database = `${folder}/etc/sasldb2`;
  write(
    `${folder}/etc/sasl/smtpd.conf`,
    `pwcheck_method: auxprop\nauxprop_plugin: sasldb\nmech_list: PLAIN LOGIN\nsasldb_path: ${database}\n`,
  );
  const [user = ''] = PEER_LOGIN.username.split('@');
  execFileSync('saslpasswd2', ['-p', '-c', '-f', database, '-u', DOMAIN, user], { input: `${PEER_LOGIN.password}\n` });
  execFileSync('chown', ['postfix', database]);
  return {
    smtpd_tls_security_level: 'may',
    smtpd_tls_cert_file: cert,
    smtpd_tls_key_file: key,
    smtpd_tls_auth_only: 'yes',
    smtpd_sasl_auth_enable: 'yes',
    smtpd_sasl_local_domain: DOMAIN,
    cyrus_sasl_config_path: `${folder}/etc/sasl`,
  };
}

/** Starts a Postfix that accepts mail on `port` and relays it to the sink. */
export async function startPostfix(options: PeerOptions): Promise<Postfix> {
  const { name, port, sinkPort } = options;
  const folder = path.join(WORK, name);
  rmSync(folder, { recursive: true, force: true });
  for (const sub of ['etc', 'spool', 'data', 'log']) mkdirSync(path.join(folder, sub), { recursive: true });
  execFileSync('chown', ['postfix', path.join(folder, 'data')]);
  const settings: Record<string, string> = {
    compatibility_level: '3.6',
    queue_directory: `${folder}/spool`,
    data_directory: `${folder}/data`,
    command_directory: '/usr/sbin',
    daemon_directory: '/usr/lib/postfix/sbin',
    mail_owner: 'postfix',
    setgid_group: 'postdrop',
    myhostname: `relay.${DOMAIN}`,
    mydestination: '',
    mynetworks: '127.0.0.0/8',
    inet_interfaces: '127.0.0.1',
    inet_protocols: 'ipv4',
    alias_maps: '',
    local_recipient_maps: '',
    relayhost: `[127.0.0.1]:${sinkPort}`,
    smtp_tls_security_level: 'none',
    smtpd_client_connection_rate_limit: '0',
    smtpd_client_connection_count_limit: '0',
    smtpd_relay_restrictions: 'permit_mynetworks,permit_sasl_authenticated,reject',
    smtpd_recipient_restrictions: '',
    smtp_dns_support_level: 'disabled',
    maillog_file: `${folder}/log/postfix.log`,
    maillog_file_prefixes: `${WORK},/var,/dev/stdout`,
    default_database_type: 'hash',
    ...(options.submission === true && submissionSettings(folder)),
    ...(options.hold === true && { smtpd_client_restrictions: 'check_client_access static:HOLD' }),
    ...(options.dkim === true && {
      smtpd_milters: `unix:${await startOpendkim()}`,
      milter_default_action: 'tempfail',
    }),
  };
  write(
    `${folder}/etc/main.cf`,
    Object.entries(settings)
      .map(([name, value]) => `${name} = ${value}\n`)
      .join(''),
  );
  const services = [
    `127.0.0.1:${port} inet n - n - - smtpd`,
    'pickup unix n - n 60 1 pickup',
    'cleanup unix n - n - 0 cleanup',
    'qmgr unix n - n 300 1 qmgr',
    'tlsmgr unix - - n 1000? 1 tlsmgr',
    'rewrite unix - - n - - trivial-rewrite',
    'bounce unix - - n - 0 bounce',
    'defer unix - - n - 0 bounce',
    'trace unix - - n - 0 bounce',
    'proxymap unix - - n - - proxymap',
    'smtp unix - - n - - smtp',
    'relay unix - - n - - smtp',
    'error unix - - n - - error',
    'retry unix - - n - - error',
    'anvil unix - - n - 1 anvil',
    'scache unix - - n - 1 scache',
    'postlog unix-dgram n - n - 1 postlogd',
  ];
  write(`${folder}/etc/master.cf`, `${services.join('\n')}\n`);
  const started = await run('postfix', ['-c', `${folder}/etc`, 'start'], { timeoutMs: 30_000 });
  if (started.process.exitCode !== 0) throw new Error(`postfix: ${started.err}${started.out}`);
  onEnd(() => run('postfix', ['-c', `${folder}/etc`, 'stop'], { timeoutMs: 20_000 }));
  await waitForPort(port);
  return { clear: () => run('postsuper', ['-c', `${folder}/etc`, '-d', 'ALL'], { timeoutMs: 60_000 }) };
}

/** Installs Haraka below the temporary directory, once; it is only measured, never a dependency. */
async function installHaraka(): Promise<void> {
  if (existsSync(path.join(DEPS, 'node_modules/Haraka'))) return;
  write(
    path.join(DEPS, 'package.json'),
    JSON.stringify({
      private: true,
      dependencies: { Haraka: '3.3.4', 'haraka-plugin-dkim': '~1.3.1' },
      overrides: { 'encoding-japanese': '2.2.0', libqp: '2.1.1', libbase64: '1.3.0', libmime: '5.4.9' },
    }),
  );
  const done = await run('npm', ['install', '--omit=optional', '--no-audit', '--no-fund'], {
    cwd: DEPS,
    timeoutMs: 240_000,
  });
  if (done.process.exitCode !== 0) throw new Error(`Haraka could not be installed: ${done.err}`);
}

/** Starts Haraka with two workers and its disk-backed queue. */
export async function startHaraka(options: PeerOptions): Promise<Child> {
  await installHaraka();
  const { name, port, sinkPort } = options;
  const folder = path.join(WORK, name);
  rmSync(folder, { recursive: true, force: true });
  cpSync(path.join(DEPS, 'node_modules/Haraka/config'), `${folder}/config`, { recursive: true });
  const plugins = [
    ...(options.submission === true ? ['tls', 'auth/flat_file'] : []),
    'bench',
    ...(options.dkim === true ? ['dkim'] : []),
  ];
  write(`${folder}/config/plugins`, `${plugins.join('\n')}\n`);
  write(`${folder}/config/smtp.ini`, `listen=127.0.0.1:${port}\nnodes=2\ninactivity_timeout=300\n`);
  write(`${folder}/config/log.ini`, '[main]\nlevel=warn\ntimestamps=false\nformat=default\n');
  write(`${folder}/config/me`, `relay.${DOMAIN}\n`);
  write(`${folder}/config/host_list`, '\n');
  write(`${folder}/config/outbound.ini`, 'enable_tls=false\nconcurrency_max=100\n');
  if (options.submission === true) {
    const { cert, key } = certificate();
    cpSync(key, `${folder}/config/tls_key.pem`);
    cpSync(cert, `${folder}/config/tls_cert.pem`);
    write(`${folder}/config/tls.ini`, `key=${key}\ncert=${cert}\n`);
    const user = `${PEER_LOGIN.username}=${PEER_LOGIN.password}`;
    write(`${folder}/config/auth_flat_file.ini`, `[core]\nmethods=PLAIN,LOGIN\n[users]\n${user}\n`);
  }
  write(
    `${folder}/config/dkim.ini`,
    `[sign]\nenabled=true\nselector=s1\ndomain=${DOMAIN}\nheaders=From, Subject, Date, Message-ID, To, MIME-Version, Content-Type\n[verify]\nenabled=false\n`,
  );
  write(`${folder}/config/dkim/${DOMAIN}/selector`, 's1');
  cpSync(dkimKey(), `${folder}/config/dkim/${DOMAIN}/private`);
  write(
    `${folder}/plugins/bench.js`,
    `'use strict'\nexports.hook_rcpt = (next, connection) => { connection.relaying = true; next(OK) }\nexports.hook_get_mx = (next) => next(OK, { priority: 0, exchange: '127.0.0.1', port: ${sinkPort} })\n`,
  );
  mkdirSync(`${folder}/queue`, { recursive: true });
  const child = start(process.execPath, [path.join(DEPS, 'node_modules/Haraka/bin/haraka'), '-c', folder], {
    env: { ...process.env, NODE_PATH: path.join(DEPS, 'node_modules') },
  });
  onEnd(() => stop(child));
  await waitForPort(port);
  return child;
}
