/**
 * A private Postfix for a test: configuration, queue, and mailboxes in a temporary directory, listening on one loopback port with STARTTLS,
 * delivering to maildirs of known users and rejecting others. Needs root, as Postfix does. It is started and stopped with its own control
 * program; the machine's Postfix is not affected.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { freePort } from '../kit/free-ports.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';

export interface PrivatePostfix {
  port: number;
  /** Its configuration, for `sendmail -C`. */
  configFolder: string;
  /** Messages delivered to this user, each as the bytes of its file. */
  mailbox(user: string): Buffer[];
  log(): string;
  /** Returns the output of `postqueue -p`. */
  queue(): string;
  stop(): void;
}

const MASTER_SERVICES = [
  'pickup unix n - n 60 1 pickup',
  'cleanup unix n - n - 0 cleanup',
  'qmgr unix n - n 300 1 qmgr',
  'tlsmgr unix - - n 1000? 1 tlsmgr',
  'rewrite unix - - n - - trivial-rewrite',
  'bounce unix - - n - 0 bounce',
  'defer unix - - n - 0 bounce',
  'trace unix - - n - 0 bounce',
  'verify unix - - n - 1 verify',
  'proxymap unix - - n - - proxymap',
  'smtp unix - - n - - smtp',
  'relay unix - - n - - smtp',
  'showq unix n - n - - showq',
  'error unix - - n - - error',
  'retry unix - - n - - error',
  'discard unix - - n - - discard',
  'virtual unix - n n - - virtual',
  'anvil unix - - n - 1 anvil',
  'scache unix - - n - 1 scache',
  'postlog unix-dgram n - n - 1 postlogd',
];

const ids = (user: string): { uid: number; gid: number } => {
  const id = (flag: string): number => Number(execFileSync('id', [flag, user], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
};

/** Starts one with these users of this domain. Throws with Postfix's output if it does not start. */
export async function startPostfix(options: {
  domain: string;
  users: string[];
  /** Additional settings, which override others of the same name. */
  settings?: Record<string, string>;
  /** A resolver on port 53 of this address, instead of the machine's. */
  resolverAddress?: string;
}): Promise<PrivatePostfix> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-postfix-'));
  chmodSync(folder, 0o755);
  const at = (name: string): string => path.join(folder, name);
  for (const name of ['etc', 'spool', 'data', 'mail']) mkdirSync(at(name));
  const port = await freePort();
  const owner = ids('postfix');
  execFileSync('chown', ['postfix', at('data'), at('mail')]);
  const { key, cert } = testCertificate();
  writeFileSync(at('etc/key.pem'), key, { mode: 0o600 });
  writeFileSync(at('etc/cert.pem'), cert);
  const users = options.users.map((user) => `${user}@${options.domain} ${user}/\n`);
  writeFileSync(at('etc/users'), users.join(''));
  const settings: Record<string, string> = {
    compatibility_level: '3.6',
    queue_directory: at('spool'),
    data_directory: at('data'),
    command_directory: '/usr/sbin',
    daemon_directory: '/usr/lib/postfix/sbin',
    mail_owner: 'postfix',
    setgid_group: 'postdrop',
    myhostname: `mx.${options.domain}`,
    mydestination: '',
    mynetworks: '',
    inet_interfaces: '127.0.0.1',
    inet_protocols: 'ipv4',
    alias_maps: '',
    local_recipient_maps: '',
    virtual_mailbox_domains: options.domain,
    virtual_mailbox_base: at('mail'),
    virtual_mailbox_maps: `texthash:${at('etc/users')}`,
    virtual_uid_maps: `static:${owner.uid}`,
    virtual_gid_maps: `static:${owner.gid}`,
    virtual_minimum_uid: '1',
    message_size_limit: '50000000',
    virtual_mailbox_limit: '0',
    smtpd_relay_restrictions: 'reject_unauth_destination',
    smtpd_recipient_restrictions: '',
    smtpd_tls_security_level: 'may',
    smtpd_tls_cert_file: at('etc/cert.pem'),
    smtpd_tls_key_file: at('etc/key.pem'),
    smtpd_tls_received_header: 'yes',
    smtp_dns_support_level: 'disabled',
    smtpd_peername_lookup: 'no',
    default_database_type: 'texthash',
    maillog_file: at('log'),
    maillog_file_prefixes: folder,
    ...options.settings,
  };
  const main = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  writeFileSync(at('etc/main.cf'), main.join(''));
  writeFileSync(at('etc/master.cf'), `127.0.0.1:${port} inet n - n - - smtpd\n${MASTER_SERVICES.join('\n')}\n`);
  const control = (command: string): void => {
    execFileSync('/usr/sbin/postfix', ['-c', at('etc'), command], { stdio: 'pipe', timeout: 60_000 });
  };
  const { resolverAddress } = options;
  // Its DNS library uses one fixed file and port: it runs in a mount namespace in which that file is replaced.
  const startWithResolver = (): void => {
    writeFileSync(at('etc/resolv.conf'), `nameserver ${resolverAddress}\noptions edns0 trust-ad\n`);
    const script = 'mount --bind "$0/resolv.conf" /etc/resolv.conf && exec /usr/sbin/postfix -c "$0" start';
    execFileSync('unshare', ['--mount', 'sh', '-c', script, at('etc')], { stdio: 'pipe', timeout: 60_000 });
  };
  const log = (): string => (existsSync(at('log')) ? readFileSync(at('log'), 'utf8') : '');
  const stop = (): void => {
    try {
      control('stop');
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
  try {
    if (resolverAddress === undefined) control('start');
    else startWithResolver();
    await waitUntil('Postfix to listen', () => answers(port), 60_000);
  } catch (error) {
    const { stderr = '' } = error as { stderr?: Buffer | string };
    const said = `${stderr}${log()}`;
    try {
      stop();
    } catch {
      // It never ran: its earlier output is what matters.
    }
    throw new Error(`Postfix did not start: ${(error as Error).message}\n${said}`);
  }
  return {
    port,
    configFolder: at('etc'),
    log,
    queue: () => execFileSync('/usr/sbin/postqueue', ['-c', at('etc'), '-p'], { encoding: 'utf8', timeout: 60_000 }),
    stop,
    mailbox: (user) => {
      const box = path.join(folder, 'mail', user, 'new');
      return existsSync(box)
        ? readdirSync(box)
            .sort()
            .map((name) => readFileSync(path.join(box, name)))
        : [];
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('data', () => {
      resolve(true);
      socket.end('QUIT\r\n');
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
