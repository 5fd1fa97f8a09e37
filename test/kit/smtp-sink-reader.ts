/**
 * Reads a client's bytes for the SMTP sink: command lines and dot-stuffed content, and records everything that a strict server would
 * reject.
 */
import type { Socket } from 'node:net';

const END = Buffer.from('\r\n.\r\n');
const MAX_COMMAND_BYTES = 2048;

export class SinkReader {
  readonly #socket: Socket;
  readonly #violate: (text: string) => void;
  #buffer: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, violate: (text: string) => void) {
    this.#socket = socket;
    this.#violate = violate;
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd);
  }

  #onData = (chunk: Buffer): void => {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    this.#wake?.();
  };

  #onEnd = (): void => {
    this.#ended = true;
    this.#wake?.();
    this.#socket.end();
  };

  get hasSurplus(): boolean {
    return this.#buffer.length > 0;
  }

  /** Stops reading, so that another reader can use the socket. */
  stop(): void {
    this.#socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd);
    this.#socket.pause();
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }

  /**
   * Returns the next command without its CRLF, or undefined at the end. A response to AUTH can be longer than a command (RFC 4954 §4).
   */
  async line({ mostBytes = MAX_COMMAND_BYTES } = {}): Promise<string | undefined> {
    for (;;) {
      const end = this.#buffer.indexOf(10);
      if (end !== -1) {
        const line = this.#buffer.toString('utf8', 0, end + 1);
        this.#buffer = this.#buffer.subarray(end + 1);
        if (!line.endsWith('\r\n')) this.#violate(`bare LF in a command: ${JSON.stringify(line)}`);
        if (/[\r\0]/.test(line.slice(0, -2))) this.#violate(`bare CR or NUL in a command: ${JSON.stringify(line)}`);
        if (line.length > mostBytes) this.#violate('over-long command');
        return line.replace(/\r?\n$/, '');
      }
      if (this.#ended) return undefined;
      await this.#more();
    }
  }

  /** Returns everything up to the final dot, without dot-stuffing; undefined if the client left before it. */
  async content(options: { keep: boolean }): Promise<Buffer | undefined> {
    const pieces: Buffer[] = [Buffer.from('\r\n')];
    let tail = Buffer.from('\r\n');
    for (;;) {
      const chunk = this.#buffer;
      const window = Buffer.concat([tail, chunk]);
      const at = window.indexOf(END);
      if (at !== -1) {
        const used = at + END.length - tail.length;
        pieces.push(chunk.subarray(0, used));
        this.#buffer = chunk.subarray(used);
        return options.keep ? this.#undot(Buffer.concat(pieces)) : Buffer.alloc(0);
      }
      if (options.keep) pieces.push(chunk);
      tail = Buffer.from(window.subarray(Math.max(0, window.length - (END.length - 1))));
      this.#buffer = Buffer.alloc(0);
      if (this.#ended) return undefined;
      await this.#more();
    }
  }

  /** `raw` starts with the CRLF before the content and ends with the final dot's line. */
  #undot(raw: Buffer): Buffer {
    const text = raw.toString('latin1', 2, raw.length - 3);
    if (/(?<!\r)\n/.test(text)) this.#violate('bare LF in the content');
    if (/\r(?!\n)/.test(text)) this.#violate('bare CR in the content');
    if (text.includes('\0')) this.#violate('NUL in the content');
    if (/(?:^|\n)\.(?!\.)/.test(text)) this.#violate('a line starts with a dot that is not doubled');
    return Buffer.from(text.replace(/(^|\n)\./g, '$1'), 'latin1');
  }
}
