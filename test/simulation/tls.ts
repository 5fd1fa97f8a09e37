/**
 * TLS without cryptography: a hello in each direction over the same stream, then unencrypted bytes. Whether a handshake succeeds, and the
 * certificate, is reported as Node reports it. Real TLS is tested elsewhere.
 */
import { Duplex } from 'node:stream';
import { type Certificate, shown } from './certificates.ts';
import type { SimSocket } from './network.ts';

const CLIENT_HELLO = Buffer.from('\x16\x03\x01 simulated client hello\n');
/** The certificate of Postrider's own listeners. */
const OURS: Certificate = { key: 0, isValid: false };
const HELLO = '\x16\x03\x03 simulated ';
const HELLO_LENGTH = HELLO.length + 'SERVER 00000\n'.length;

/** In capitals if the certificate is valid for the server's name. */
const serverHello = ({ key, isValid }: Certificate): Buffer =>
  Buffer.from(`${HELLO}${isValid ? 'SERVER' : 'server'} ${String(key).padStart(5, '0')}\n`, 'latin1');

function helloOf(bytes: Buffer): Certificate | undefined {
  const [, word, key] = /^(SERVER|server) (\d{5})\n$/.exec(bytes.toString('latin1', HELLO.length)) ?? [];
  return word === undefined ? undefined : { key: Number(key), isValid: word === 'SERVER' };
}

interface TlsOptions {
  socket?: SimSocket;
  isServer?: boolean;
  /** A server's certificate. */
  certificate?: Certificate;
  rejectUnauthorized?: boolean;
}

export class SimTlsSocket extends Duplex {
  readonly encrypted = true;
  authorized = false;
  /** OpenSSL's code, as Node returns it. */
  authorizationError: string | null = 'SELF_SIGNED_CERT_IN_CHAIN';
  readonly #plain: SimSocket;
  #certificate: ReturnType<typeof shown> | undefined;
  readonly #isServer: boolean;
  readonly #options: TlsOptions;
  #heard: Buffer = Buffer.alloc(0);
  #isSecure = false;

  constructor(plain: SimSocket, options: TlsOptions = {}) {
    super({ allowHalfOpen: true });
    this.#plain = plain;
    this.#options = options;
    this.#isServer = options.isServer === true;
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
    const length = this.#isServer ? CLIENT_HELLO.length : HELLO_LENGTH;
    const hello = this.#heard.subarray(0, length);
    const beginning = this.#isServer ? CLIENT_HELLO : Buffer.from(HELLO, 'latin1');
    const compared = Math.min(hello.length, beginning.length);
    if (!hello.subarray(0, compared).equals(beginning.subarray(0, compared))) {
      const error = Object.assign(new Error('wrong version number'), { code: 'ERR_SSL_WRONG_VERSION_NUMBER' });
      if (this.#isServer) this.emit('_tlsError', error);
      this.destroy(error);
    } else if (hello.length === length) this.#complete(hello, this.#heard.subarray(length));
  }

  #complete(hello: Buffer, rest: Buffer): void {
    if (!this.#isServer) {
      const certificate = helloOf(hello)!;
      this.#certificate = shown(certificate);
      this.authorized = certificate.isValid;
      if (this.authorized) this.authorizationError = null;
      // As in Node by default.
      else if (this.#options.rejectUnauthorized !== false) {
        this.destroy(Object.assign(new Error('self-signed certificate'), { code: this.authorizationError }));
        return;
      }
    }
    this.#secured(rest);
  }

  #secured(rest: Buffer): void {
    this.#isSecure = true;
    if (this.#isServer) {
      this.#plain.write(serverHello(this.#options.certificate ?? OURS));
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

  getEphemeralKeyInfo(): { type: string; name: string } {
    return { type: 'TLSGroup', name: 'X25519MLKEM768' };
  }

  getCipher(): { name: string } {
    return { name: 'TLS_AES_128_GCM_SHA256' };
  }

  getPeerX509Certificate(): ReturnType<typeof shown> | undefined {
    return this.#certificate;
  }

  /** Without issuers. */
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
