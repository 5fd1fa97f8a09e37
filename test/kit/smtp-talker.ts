/** A client that sends exactly the given bytes and returns the replies line by line. It knows no SMTP except STARTTLS. */
import net from 'node:net';
import tls from 'node:tls';

export interface Talker {
  /** Sends bytes unchanged; characters above U+00FF as UTF-8. */
  send(text: string | Buffer): void;
  /** Returns the next line without its CRLF; undefined once the server has closed. Rejects after the timeout. */
  line(timeoutMs?: number): Promise<string | undefined>;
  /**
   * Returns an entire reply, with its lines joined by
   * .
   */
  reply(timeoutMs?: number): Promise<string>;
  /** Sends a line and returns the entire reply. */
  say(line: string, timeoutMs?: number): Promise<string>;
  startTls(options?: tls.ConnectionOptions): Promise<void>;
  /** Sends EHLO, STARTTLS, EHLO; throws unless they are accepted. */
  secure(): Promise<void>;
  /** Resolves when the server has closed; its last bytes can still be read. */
  closed(timeoutMs?: number): Promise<void>;
  /** Ends the sending side. */
  end(): void;
  destroy(): void;
  /** Sends EHLO, STARTTLS, EHLO, AUTH PLAIN; throws unless they are accepted. */
  logIn(credential: { username: string; password: string }): Promise<void>;
  readonly socket: net.Socket;
}

export function plainResponse({ username, password }: { username: string; password: string }): string {
  return Buffer.from(`\0${username}\0${password}`).toString('base64');
}

const SLOWEST_MS = 30_000;

/** Connects without waiting for the greeting. */
export async function connectTalker(
  port: number,
  options: { localAddress?: string; host?: string } = {},
): Promise<Talker> {
  const { host = '127.0.0.1', ...rest } = options;
  let socket: net.Socket = net.connect({ port, host, ...rest });
  let heard = '';
  let isOver = false;
  let wake: () => void = () => undefined;

  const listen = (one: net.Socket): void => {
    one.setEncoding('latin1');
    one.on('data', (text: string) => {
      heard += text;
      wake();
    });
    one.on('error', () => undefined);
    one.on('close', () => {
      if (one !== socket) return;
      isOver = true;
      wake();
    });
  };
  listen(socket);
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', () => resolve());
    socket.once('error', reject);
  });
  socket.setNoDelay(true);

  const until = async <T>(what: string, look: () => T | undefined, timeoutMs: number): Promise<T> => {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      const left = deadline - performance.now();
      if (left <= 0)
        throw new Error(`timed out after ${timeoutMs} ms waiting for ${what}; received ${JSON.stringify(heard)}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const line = (timeoutMs = SLOWEST_MS): Promise<string | undefined> =>
    until(
      'a line',
      () => {
        const end = heard.indexOf('\r\n');
        if (end === -1) return isOver ? { text: undefined } : undefined;
        const text = heard.slice(0, end);
        heard = heard.slice(end + 2);
        return { text };
      },
      timeoutMs,
    ).then(({ text }) => text);
  const reply = async (timeoutMs = SLOWEST_MS): Promise<string> => {
    const lines: string[] = [];
    for (;;) {
      const one = await line(timeoutMs);
      if (one === undefined) throw new Error(`the connection was closed; received ${JSON.stringify(lines)}`);
      lines.push(one);
      if (!/^\d{3}-/.test(one)) return lines.join('\n');
    }
  };
  const send = (text: string | Buffer): void => {
    if (Buffer.isBuffer(text)) socket.write(text);
    else socket.write(text, /[^\x00-\xff]/.test(text) ? 'utf8' : 'latin1');
  };
  const say = (text: string, timeoutMs?: number): Promise<string> => {
    send(`${text}\r\n`);
    return reply(timeoutMs);
  };
  const startTls = async (how: tls.ConnectionOptions = {}): Promise<void> => {
    const plain = socket;
    plain.removeAllListeners('data');
    const secured = tls.connect({ socket: plain, rejectUnauthorized: false, ...how });
    socket = secured;
    heard = '';
    await new Promise<void>((resolve, reject) => {
      secured.once('secureConnect', resolve);
      secured.once('error', reject);
      plain.once('close', () => reject(new Error('closed during the handshake')));
    });
    listen(secured);
  };
  const expect = async (want: string, got: Promise<string>): Promise<void> => {
    const said = await got;
    if (!said.startsWith(want)) throw new Error(`expected ${want}, received ${said}`);
  };
  const secure = async (): Promise<void> => {
    await expect('250', say('EHLO client.example'));
    await expect('220', say('STARTTLS'));
    await startTls();
    await expect('250', say('EHLO client.example'));
  };

  return {
    send,
    line,
    reply,
    say,
    startTls,
    secure,
    closed: async (timeoutMs = SLOWEST_MS) => {
      await until('the end of the connection', () => isOver || undefined, timeoutMs);
    },
    end: () => void socket.end(),
    destroy: () => void socket.destroy(),
    logIn: async (credential) => {
      await secure();
      await expect('235', say(`AUTH PLAIN ${plainResponse(credential)}`));
    },
    get socket() {
      return socket;
    },
  };
}
