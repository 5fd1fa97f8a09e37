/** One connection to the SMTP sink: reads the client's commands and acts on each as the script says. */
import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';
import tls from 'node:tls';
import { SinkReader } from './smtp-sink-reader.ts';
import type { SinkAction, SinkOptions, SinkRule, SinkStage, SmtpSink } from './smtp-sink-types.ts';
import { testCertificate } from './test-certificate.ts';

const DEFAULT_EXTENSIONS = ['PIPELINING', 'SIZE 50000000', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];

const DEFAULT_REPLIES: Record<SinkStage, string> = {
  banner: '220 sink ESMTP',
  ehlo: '',
  helo: '250 sink',
  starttls: '220 2.0.0 go ahead',
  auth: '235 2.7.0 welcome',
  mail: '250 2.1.0 sender ok',
  rcpt: '250 2.1.5 recipient ok',
  data: '354 go ahead',
  dot: '250 2.0.0 queued',
  rset: '250 2.0.0 flushed',
  quit: '221 2.0.0 bye',
};

/** Shared by all sessions of a sink. */
export interface SinkState {
  options: SinkOptions;
  script: Partial<Record<SinkStage, SinkRule>>;
  occurrences: Map<SinkStage, number>;
  sink: SmtpSink;
  count: (accepted: boolean) => void;
}

interface Envelope {
  from: string | undefined;
  parameters: string;
  to: string[];
}

export class SinkSession {
  #socket: Socket;
  #reader: SinkReader;
  readonly #shared: SinkState;
  readonly #number: number;
  #tls: string | undefined;
  #auth: string | undefined;
  #envelope: Envelope = { from: undefined, parameters: '', to: [] };

  constructor(shared: SinkState, socket: Socket, number: number) {
    this.#shared = shared;
    this.#socket = socket;
    this.#number = number;
    this.#reader = new SinkReader(socket, (violation) => shared.sink.violations.push(violation));
    if (socket instanceof tls.TLSSocket) this.#tls = socket.getProtocol() ?? undefined;
  }

  /** Returns the code that was sent, or 0 if the connection is over. */
  async #act(stage: SinkStage, line: string, defaultReply = DEFAULT_REPLIES[stage]): Promise<number> {
    const { occurrences, script } = this.#shared;
    const occurrence = (occurrences.get(stage) ?? 0) + 1;
    occurrences.set(stage, occurrence);
    const rule = script[stage];
    const { from = '', to } = this.#envelope;
    const context = { stage, session: this.#number, line, occurrence, from, to: [...to], tls: this.#tls };
    const found = typeof rule === 'function' ? await rule(context) : Array.isArray(rule) ? rule[occurrence - 1] : rule;
    if (found === undefined) return this.#reply(defaultReply, {});
    return typeof found === 'string' ? this.#reply(found, {}) : this.#reply(found.reply ?? defaultReply, found);
  }

  async #reply(text: string, how: Exclude<SinkAction, string>): Promise<number> {
    const socket = this.#socket;
    if (how.delayMs) await new Promise((resolve) => setTimeout(resolve, how.delayMs));
    if (how.silent) {
      socket.resume();
      await new Promise((resolve) => socket.once('close', resolve));
      return 0;
    }
    if (how.endless) {
      while (!socket.destroyed) {
        const room = socket.write(`250-${'x'.repeat(500)}\r\n`.repeat(20));
        await new Promise((resolve) =>
          room ? setImmediate(resolve) : socket.once('drain', resolve).once('close', resolve),
        );
      }
      return 0;
    }
    if (how.drop && how.reply === undefined) {
      socket.destroy();
      return 0;
    }
    for (const byte of how.dripMs ? `${text}\r\n` : '') {
      if (socket.destroyed) return 0;
      socket.write(byte);
      await new Promise((resolve) => setTimeout(resolve, how.dripMs));
    }
    if (!how.dripMs) socket.write(`${text}\r\n${how.inject ?? ''}`);
    if (how.drop) socket.end();
    return how.drop ? 0 : Number(text.slice(-1000).split('\r\n').at(-1)?.slice(0, 3));
  }

  async run(): Promise<void> {
    if ((await this.#act('banner', 'banner')) !== 220) this.#socket.end();
    for (;;) {
      const line = await this.#reader.line();
      if (line === undefined) return;
      this.#shared.sink.commands.push(line);
      if (!(await this.#command(line))) return;
    }
  }

  /** Returns false if the session is over. */
  async #command(line: string): Promise<boolean> {
    const verb = line.split(' ')[0]!.toUpperCase();
    switch (verb) {
      case 'EHLO':
        return (await this.#act('ehlo', line, this.#ehloReply())) !== 0;
      case 'HELO':
        return (await this.#act('helo', line)) !== 0;
      case 'STARTTLS':
        return this.#startTls(line);
      case 'AUTH':
        return this.#authenticate(line);
      case 'MAIL':
        return this.#mail(line);
      case 'RCPT':
        return this.#rcpt(line);
      case 'DATA':
        return this.#data(line);
      case 'RSET':
        this.#envelope = { from: undefined, parameters: '', to: [] };
        return (await this.#act('rset', line)) !== 0;
      case 'QUIT':
        await this.#act('quit', line);
        this.#socket.end();
        return false;
      default:
        this.#shared.sink.violations.push(`unknown command ${JSON.stringify(line.slice(0, 80))}`);
        return (await this.#reply('500 5.5.1 unknown command', {})) !== 0;
    }
  }

  #ehloReply(): string {
    const { options } = this.#shared;
    const lines = ['sink', ...(options.extensions ?? DEFAULT_EXTENSIONS)];
    if (options.tls === 'starttls' && !this.#tls) lines.push('STARTTLS');
    if (options.auth) lines.push('AUTH PLAIN LOGIN');
    if (options.oauth) lines.push(`AUTH ${options.oauth.mechanism}`);
    return lines.map((text, index) => `250${index === lines.length - 1 ? ' ' : '-'}${text}`).join('\r\n');
  }

  async #startTls(line: string): Promise<boolean> {
    const rule = this.#shared.script.starttls;
    const code = await this.#act('starttls', line);
    if (code !== 220) return code !== 0;
    this.#reader.stop();
    if (typeof rule === 'object' && 'handshake' in rule && rule.handshake) return this.#breakHandshake(rule.handshake);
    if (this.#reader.hasSurplus) this.#shared.sink.violations.push('bytes in the clear behind STARTTLS');
    const certificate = this.#shared.options.certificate ?? testCertificate();
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const;
    const options = { ...certificate, ...(this.#shared.options.oldTls ? old : {}) };
    const secure = new tls.TLSSocket(this.#socket, {
      isServer: true,
      secureContext: tls.createSecureContext(options),
    });
    secure.on('error', () => {});
    const done = await new Promise<boolean>((resolve) => {
      secure.once('secure', () => resolve(true)).once('close', () => resolve(false));
    });
    if (!done) return false;
    this.#socket = secure;
    this.#tls = secure.getProtocol() ?? undefined;
    this.#reader = new SinkReader(secure, (violation) => this.#shared.sink.violations.push(violation));
    return true;
  }

  /** Always ends the session; a stalled handshake ends when the client times out. */
  async #breakHandshake(how: 'garbage' | 'reset' | 'stalled' | 'alert'): Promise<false> {
    const socket = this.#socket;
    if (how === 'stalled') {
      await new Promise((resolve) => socket.resume().once('close', resolve));
      return false;
    }
    await new Promise((resolve) => socket.once('data', resolve).once('close', resolve).resume());
    // A fatal alert: handshake_failure (40).
    if (how === 'alert') socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 40]));
    else if (how === 'garbage') socket.end('this is no handshake\r\n'.repeat(3));
    else socket.resetAndDestroy();
    return false;
  }

  async #authenticate(line: string): Promise<boolean> {
    const [, mechanism = '', initial] = line.split(' ');
    const decode = (text: string | undefined): string => Buffer.from(text ?? '', 'base64').toString();
    const challenge = async (text: string): Promise<string> => {
      this.#socket.write(`334 ${text}\r\n`);
      return decode(await this.#reader.line());
    };
    const { oauth } = this.#shared.options;
    if (oauth) return this.#authenticateByToken(oauth, line);
    let user: string;
    let pass: string;
    if (mechanism.toUpperCase() === 'PLAIN') {
      const [, name = '', secret = ''] = (initial ? decode(initial) : await challenge('')).split('\0');
      [user, pass] = [name, secret];
    } else {
      user = await challenge('VXNlcm5hbWU6');
      pass = await challenge('UGFzc3dvcmQ6');
    }
    const wanted = this.#shared.options.auth;
    const good = wanted?.user === user && wanted.pass === pass;
    if (good) this.#auth = user;
    return (await this.#act('auth', line, good ? DEFAULT_REPLIES.auth : '535 5.7.8 wrong user or password')) !== 0;
  }

  async #authenticateByToken(oauth: NonNullable<SinkOptions['oauth']>, line: string): Promise<boolean> {
    const [, mechanism, initial] = line.split(' ');
    if (initial === undefined) this.#socket.write('334 \r\n');
    // RFC 4954 §4: a command has at most 512 bytes.
    else if (line.length > 510) this.#shared.sink.violations.push(`AUTH command of ${line.length} characters`);
    const response = Buffer.from(
      initial ?? (await this.#reader.line({ mostBytes: 12_288 })) ?? '',
      'base64',
    ).toString();
    const { host, port } = this.#shared.sink;
    const opening =
      oauth.mechanism === 'XOAUTH2' ? `user=${oauth.user}` : `n,a=${oauth.user},\x01host=${host}\x01port=${port}`;
    const [start, end] = [`${opening}\x01auth=Bearer `, '\x01\x01'];
    const isForm = mechanism === oauth.mechanism && response.startsWith(start) && response.endsWith(end);
    if (!isForm) this.#shared.sink.violations.push(`AUTH ${mechanism} with ${JSON.stringify(response)}`);
    const isGood = isForm && oauth.isValid(response.slice(start.length, -end.length));
    if (isGood) this.#auth = oauth.user;
    else {
      this.#socket.write(`334 ${Buffer.from('{"status":"401"}').toString('base64')}\r\n`);
      const dummy = await this.#reader.line();
      if (dummy !== (oauth.mechanism === 'XOAUTH2' ? '' : 'AQ==')) this.#shared.sink.violations.push(`AUTH: ${dummy}`);
    }
    return (
      (await this.#act('auth', line, isGood ? DEFAULT_REPLIES.auth : '535 5.7.3 Authentication unsuccessful')) !== 0
    );
  }

  async #mail(line: string): Promise<boolean> {
    const match = /^MAIL FROM:<([^<>]*)>(.*)$/i.exec(line);
    if (!match) return (await this.#reply('501 5.5.4 syntax', {})) !== 0;
    if (this.#envelope.from !== undefined) {
      this.#shared.sink.violations.push('MAIL within a transaction');
      return (await this.#reply('503 5.5.1 nested MAIL', {})) !== 0;
    }
    const { auth, oauth } = this.#shared.options;
    if ((auth ?? oauth) && !this.#auth) return (await this.#reply('530 5.7.0 authenticate first', {})) !== 0;
    const code = await this.#act('mail', line);
    if (code >= 200 && code < 300) this.#envelope = { from: match[1]!, parameters: match[2]!.trim(), to: [] };
    return code !== 0;
  }

  async #rcpt(line: string): Promise<boolean> {
    const match = /^RCPT TO:<([^<>]+)>(.*)$/i.exec(line);
    if (!match) return (await this.#reply('501 5.5.4 syntax', {})) !== 0;
    if (this.#envelope.from === undefined) return (await this.#reply('503 5.5.1 MAIL first', {})) !== 0;
    const code = await this.#act('rcpt', line);
    if (code >= 200 && code < 300) this.#envelope.to.push(match[1]!);
    return code !== 0;
  }

  async #data(line: string): Promise<boolean> {
    const scripted = this.#shared.script.data !== undefined;
    const possible = this.#envelope.to.length > 0;
    const code = await this.#act(
      'data',
      line,
      possible || scripted ? DEFAULT_REPLIES.data : '554 5.5.1 no valid recipients',
    );
    if (code !== 354) return code !== 0;
    const content = await this.#reader.content({ keep: !this.#shared.options.discard });
    if (content === undefined) return false;
    const { from = '', to, parameters: mailParameters } = this.#envelope;
    const dotCode = await this.#act('dot', 'dot', possible ? DEFAULT_REPLIES.dot : '554 5.5.1 no valid recipients');
    this.#envelope = { from: undefined, parameters: '', to: [] };
    // A reply lost in transit is still an acceptance: this is how duplicates arise.
    const accepted = possible && (dotCode === 0 || (dotCode >= 200 && dotCode < 300));
    if (accepted) {
      const session = this.#number;
      const message = { from, to, content, at: Date.now(), session, tls: this.#tls, auth: this.#auth, mailParameters };
      if (!this.#shared.options.discard) this.#shared.sink.messages.push(message);
      this.#shared.count(dotCode !== 0);
      this.#shared.options.onMessage?.(message);
    }
    return dotCode !== 0;
  }
}
