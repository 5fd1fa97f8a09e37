/**
 * A mail server that misbehaves at one stage of every session, and otherwise works. Its bytes are written to the socket unchanged. It
 * records the accepted recipients.
 */
import net, { type Socket } from 'node:net';
import tls from 'node:tls';
import type { TestCertificate } from './test-certificate.ts';

/** In the order of a session. */
export const STAGES = [
  'connect',
  'banner',
  'EHLO',
  'STARTTLS',
  'handshake',
  'EHLO in TLS',
  'MAIL',
  'RCPT',
  'DATA',
  'content',
  'dot',
] as const;
export type Stage = (typeof STAGES)[number];

export const BEHAVIOURS = [
  'as expected',
  'another 2xx',
  'another class',
  '4xx',
  '421',
  '421, then closes',
  '5xx',
  'closes',
  'resets',
  'stalls',
  'garbage',
  'endless line',
  'endless reply, dripping',
] as const;
export type Behaviour = (typeof BEHAVIOURS)[number];

const GOOD: Record<Stage, string> = {
  connect: '',
  banner: '220 faulty ESMTP',
  EHLO: '250-faulty\r\n250-STARTTLS\r\n250 8BITMIME',
  STARTTLS: '220 2.0.0 go ahead',
  handshake: '',
  'EHLO in TLS': '250-faulty\r\n250 8BITMIME',
  MAIL: '250 2.1.0 fine',
  RCPT: '250 2.1.5 fine',
  DATA: '354 go ahead',
  content: '',
  dot: '250 2.0.0 queued',
};

/** The text instead of the correct reply. */
const WORDS: Partial<Record<Behaviour, string>> = {
  'another 2xx': '299 2.0.0 fine',
  '4xx': '451 4.3.0 not now',
  '421': '421 4.3.2 closing',
  '421, then closes': '421 4.3.2 closing',
  '5xx': '550 5.1.1 no such user',
  garbage: 'what is this',
};

export interface FaultyServer {
  /** Recipients of messages whose final dot it received and did not refuse. */
  readonly taken: string[];
  readonly connections: number;
  close(): Promise<void>;
}

interface Session {
  socket: Socket;
  /** Returns the client's next line, without its line end; undefined at the end of the session. */
  line(): Promise<string | undefined>;
  /** Stops reading, and returns unread bytes to the socket. */
  release(): void;
  /** Pauses reading the client's bytes. */
  pause(): void;
}

function sessionOver(socket: Socket): Session {
  let pending = '';
  let ended = false;
  let wake = (): void => undefined;
  const onData = (chunk: Buffer): void => {
    pending += chunk.toString('latin1');
    wake();
  };
  const onEnd = (): void => {
    ended = true;
    wake();
  };
  socket.on('data', onData).on('end', onEnd).on('close', onEnd).on('error', onEnd);
  return {
    socket,
    line: async () => {
      for (;;) {
        const end = pending.indexOf('\r\n');
        if (end !== -1) {
          const line = pending.slice(0, end);
          pending = pending.slice(end + 2);
          return line;
        }
        if (ended) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    release: () => {
      socket.off('data', onData).off('end', onEnd).off('close', onEnd).pause();
    },
    pause: () => {
      socket.pause();
    },
  };
}

const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => (socket.destroyed ? resolve() : socket.once('close', () => resolve())));

/** Writes pieces until the client leaves, as fast as the client reads or at an interval. */
async function writeForEver(socket: Socket, piece: string, everyMs: number): Promise<void> {
  while (!socket.destroyed) {
    const hasRoom = socket.write(piece);
    await new Promise<void>((resolve) => {
      socket.once('close', resolve);
      if (everyMs > 0) setTimeout(resolve, everyMs);
      else if (hasRoom) setImmediate(resolve);
      else socket.once('drain', resolve);
    });
    socket.removeAllListeners('close').removeAllListeners('drain');
  }
}

/** Sends the reply or misbehaves; returns the code that was sent, 0 if the session is over. */
async function act(socket: Socket, behaviour: Behaviour, good: string): Promise<number> {
  switch (behaviour) {
    case 'closes':
      socket.end();
      return 0;
    case 'resets':
      (socket instanceof tls.TLSSocket ? rawOf.get(socket)! : socket).resetAndDestroy();
      return 0;
    case 'stalls':
      await closed(socket);
      return 0;
    case 'endless line':
      await writeForEver(socket, 'x'.repeat(10_000), 0);
      return 0;
    case 'endless reply, dripping':
      await writeForEver(socket, `${good.slice(0, 3) || '250'}-\r\n`, 50);
      return 0;
    default: {
      const isClassOfContent = good.startsWith('354');
      const other = isClassOfContent ? '250 2.0.0 fine' : '354 go on';
      const words = behaviour === 'as expected' ? good : behaviour === 'another class' ? other : WORDS[behaviour]!;
      if (words !== '') socket.write(`${words}\r\n`);
      if (behaviour === '421, then closes') socket.end();
      return behaviour === '421, then closes' ? 0 : Number(words.slice(0, 3)) || 1;
    }
  }
}

const rawOf = new WeakMap<Socket, Socket>();

/** Returns the socket inside TLS; undefined if the client gave up. */
function secured(raw: Socket, certificate: TestCertificate): Promise<Socket | undefined> {
  const socket = new tls.TLSSocket(raw, { isServer: true, secureContext: tls.createSecureContext(certificate) });
  rawOf.set(socket, raw);
  socket.on('error', () => undefined);
  return new Promise((resolve) => {
    socket.once('secure', () => resolve(socket)).once('close', () => resolve(undefined));
  });
}

interface Server {
  stage: Stage;
  behaviour: Behaviour;
  certificate: TestCertificate;
  taken: string[];
}

/** Serves one session from banner to end. */
async function serve(raw: Socket, { stage, behaviour, certificate, taken }: Server): Promise<void> {
  let session = sessionOver(raw);
  const at = (here: Stage): Promise<number> =>
    act(session.socket, here === stage ? behaviour : 'as expected', GOOD[here]);
  let recipients: string[] = [];
  let isSecure = false;
  if ((await at('banner')) === 0) return;
  for (;;) {
    const line = await session.line();
    if (line === undefined) return;
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === 'EHLO' && (await at(isSecure ? 'EHLO in TLS' : 'EHLO')) === 0) return;
    if (verb === 'HELO') session.socket.write('250 faulty\r\n');
    if (verb === 'MAIL' && (await at('MAIL')) === 0) return;
    if (verb === 'RSET') session.socket.write('250 2.0.0 fine\r\n');
    if (verb === 'QUIT') {
      session.socket.end('221 2.0.0 bye\r\n');
      return;
    }
    if (verb === 'STAR') {
      const code = await at('STARTTLS');
      if (code === 0) return;
      if (code !== 220) continue;
      session.release();
      if (stage === 'handshake' && behaviour !== 'as expected') {
        await new Promise((resolve) => raw.once('data', resolve).once('close', resolve).resume());
        await act(raw, behaviour, '');
        return;
      }
      const socket = await secured(raw, certificate);
      if (!socket) return;
      session = sessionOver(socket);
      isSecure = true;
    }
    if (verb === 'RCPT') {
      const code = await at('RCPT');
      if (code === 0) return;
      if (code >= 200 && code < 300) recipients.push(/<(.*)>/.exec(line)?.[1] ?? '');
    }
    if (verb === 'DATA') {
      const code = await at('DATA');
      if (code === 0) return;
      if (code !== 354) continue;
      if (stage === 'content' && behaviour !== 'as expected') {
        if (behaviour === 'stalls') session.pause();
        if ((await act(session.socket, behaviour, '')) === 0) return;
      }
      for (let content = await session.line(); content !== '.'; content = await session.line()) {
        if (content === undefined) return;
      }
      const answer = await at('dot');
      if (
        stage !== 'dot' ? answer >= 200 && answer < 300 : behaviour === 'as expected' || behaviour === 'another 2xx'
      ) {
        taken.push(...recipients);
      }
      recipients = [];
      if (answer === 0) return;
    }
  }
}

/** Listens on this address; `connect` is for behaviors without a listener. */
export async function faultyServer(
  options: { host: string; port: number; certificate: TestCertificate },
  fault: { stage: Stage; behaviour: Behaviour },
): Promise<FaultyServer> {
  const { host, port, certificate } = options;
  const open = new Set<Socket>();
  const taken: string[] = [];
  let connections = 0;
  const server = net.createServer((socket) => {
    connections += 1;
    open.add(socket);
    socket
      .setNoDelay(true)
      .on('error', () => undefined)
      .on('close', () => open.delete(socket));
    serve(socket, { ...fault, certificate, taken }).catch(() => socket.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve);
  });
  return {
    taken,
    get connections() {
      return connections;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}
