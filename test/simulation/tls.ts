/**
 * TLS without its mathematics: a hello in each direction over the same stream, then the bytes as they are. Whether a handshake
 * succeeds, and what certificate was shown, is reported as Node reports it. That real TLS keeps its promises is proven with real TLS.
 */
import { Duplex } from 'node:stream';
import type { SimSocket } from './network.ts';

const CLIENT_HELLO = Buffer.from('\x16\x03\x01 simulated client hello\n');
const SERVER_HELLO = Buffer.from('\x16\x03\x03 simulated server hello\n');
/** Of a server with a certificate that is valid for its name. */
const VALID_HELLO = Buffer.from('\x16\x03\x03 simulated SERVER hello\n');

interface TlsOptions {
  socket?: SimSocket;
  isServer?: boolean;
  /** Of a server: that its certificate is valid. */
  isValid?: boolean;
  rejectUnauthorized?: boolean;
}

export class SimTlsSocket extends Duplex {
  readonly encrypted = true;
  authorized = false;
  authorizationError: Error | null = new Error('SELF_SIGNED_CERT_IN_CHAIN');
  readonly #plain: SimSocket;
  readonly #expected: Buffer;
  readonly #isServer: boolean;
  readonly #options: TlsOptions;
  #heard: Buffer = Buffer.alloc(0);
  #isSecure = false;

  constructor(plain: SimSocket, options: TlsOptions = {}) {
    super({ allowHalfOpen: true });
    this.#plain = plain;
    this.#options = options;
    this.#isServer = options.isServer === true;
    this.#expected = this.#isServer ? CLIENT_HELLO : SERVER_HELLO;
    plain.on('data', (chunk: Buffer) => this.#received(chunk));
    plain.on('end', () => (this.#isSecure ? this.push(null) : this.destroy()));
    plain.on('error', (error) => this.destroy(error));
    plain.on('close', () => this.destroy());
    plain.on('drain', () => this.emit('drain'));
    plain.resume();
    if (!this.#isServer) plain.write(CLIENT_HELLO);
  }

  #received(chunk: Buffer): void {
    if (this.#isSecure) {
      this.push(chunk);
      return;
    }
    this.#heard = Buffer.concat([this.#heard, chunk]);
    const hello = this.#heard.subarray(0, this.#expected.length);
    const isHello = [this.#expected, ...(this.#isServer ? [] : [VALID_HELLO])].some((one) =>
      hello.equals(one.subarray(0, hello.length)),
    );
    if (!isHello) {
      const error = Object.assign(new Error('wrong version number'), { code: 'ERR_SSL_WRONG_VERSION_NUMBER' });
      if (this.#isServer) this.emit('_tlsError', error);
      this.destroy(error);
    } else if (hello.length === this.#expected.length)
      this.#shown(hello.equals(VALID_HELLO), this.#heard.subarray(hello.length));
  }

  #shown(isValid: boolean, rest: Buffer): void {
    this.authorized = isValid;
    if (isValid) this.authorizationError = null;
    else if (!this.#isServer && this.#options.rejectUnauthorized === true) {
      this.destroy(Object.assign(new Error('self-signed certificate'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' }));
      return;
    }
    this.#secured(rest);
  }

  #secured(rest: Buffer): void {
    this.#isSecure = true;
    if (this.#isServer) {
      this.#plain.write(this.#options.isValid ? VALID_HELLO : SERVER_HELLO);
      this.emit('secure');
    } else {
      this.emit('secure');
      this.emit('secureConnect');
    }
    if (rest.length > 0) this.push(rest);
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#plain.write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#plain.end();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#plain.destroy();
    done(error);
  }

  get remoteAddress(): string {
    return this.#plain.remoteAddress;
  }

  getProtocol(): string {
    return 'TLSv1.3';
  }

  getCipher(): { name: string } {
    return { name: 'TLS_AES_128_GCM_SHA256' };
  }

  getPeerX509Certificate(): undefined {
    return undefined;
  }

  getPeerCertificate(): object {
    return {};
  }

  setTimeout(ms: number, onTimeout?: () => void): this {
    this.#plain.setTimeout(ms, onTimeout);
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }
}
