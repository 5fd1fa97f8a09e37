/**
 * Runs one SMTP session: splits the input into command lines and message content, processes one command or message at a time, and enforces
 * deadlines. commands.ts runs the commands; session-wire.ts handles the connection.
 *
 *   greeting ─20 ms of silence─▶ open ─QUIT, too many errors, a deadline─▶ closing ─the client closes─▶ closed
 *   greeting, open ─TLS─▶ handshake ─▶ greeting, open
 *   open:  input ─pump─▶ a line to commands.ts (or to an AUTH exchange) │ content to the current message
 *          while a command is in progress, further input is queued
 *
 * Invariants:
 *
 * - One command or message is processed at a time. Further input is queued, and the socket is paused when the queue exceeds a limit.
 * - Replies to commands that arrived together are sent together, in order, in one write.
 * - Lines end with CRLF. A line is rejected once it exceeds its limit; its further bytes are discarded as they arrive.
 * - Nothing from before a TLS handshake is used after it: neither the session state nor received bytes.
 * - A message is accepted only by its 250 reply. If the connection ends before the final dot, nothing is stored.
 */
import type { Socket } from 'node:net';
import { ByteQueue } from '../base/byte-queue.ts';
import type { Log } from '../base/log.ts';
import { malformedLogin } from './authenticate.ts';
import { lineText } from './command.ts';
import { runCommand } from './commands.ts';
import {
  AUTH_BYTES,
  cleanReply,
  commandLimit,
  type Dialogue,
  type InboundEnvelope,
  type Login,
  type MailTransfer,
  noteRefused,
  type Pending,
  type SmtpServices,
  STOPPING,
  type SubmissionEnvelope,
  TOO_LARGE,
} from './dialogue.ts';
import { countedAddress, SessionWire } from './session-wire.ts';

const LF = 10;
const CR = 13;
/** Maximum bytes of input that are queued while a command is in progress, before the socket is paused. */
const MAX_QUEUED_BYTES = 128 * 1024;

type Phase = 'greeting' | 'open' | 'handshake' | 'closing' | 'closed';

export interface SessionOptions {
  services: SmtpServices;
  address: string;
  /** Whether TLS starts with the first byte (RFC 8314 §3.3); otherwise with STARTTLS. */
  isImplicitTls: boolean;
  /** Reply that is sent instead of the greeting; the session then ends. */
  refusal?: string | undefined;
  /** Called when the session no longer has a message in progress. May be called repeatedly. */
  onMailEnded(): void;
  onClosed(): void;
}

export class Session implements Dialogue {
  readonly services: SmtpServices;
  readonly log: Log;
  readonly address: string;
  readonly countedAddress: string;
  helo: string | undefined;
  isExtended = false;
  isSecure = false;
  login: Login | undefined;
  envelope: SubmissionEnvelope | InboundEnvelope | undefined;
  refusedRecipients = 0;
  takeLine: ((line: string | undefined) => Pending) | undefined;
  transfer: MailTransfer | undefined;
  verb: string | undefined;
  fruitless = 0;

  readonly #wire: SessionWire;
  readonly #refusal: string | undefined;
  readonly #onMailEnded: () => void;
  readonly #onClosed: () => void;
  #phase: Phase = 'greeting';
  readonly #input = new ByteQueue();
  /**
   * The maximum length of the incomplete line at the end of the input; 0 if there is none. Until the input is longer, only new chunks are
   * searched for the end of the line.
   */
  #midLineBytes = 0;
  /** Whether a command is in progress and further input is queued. */
  #isWaiting = false;
  /** Whether a message was received completely and has no reply yet. */
  #isStoring = false;
  /** Bytes skipped of a line that was too long; -1 if no line is being skipped. */
  #skippedBytes = -1;
  #clientErrors = 0;
  #isDraining = false;
  /** Whether the client has finished sending. */
  #isEnded = false;
  /** Current deadline of the session, in ms of performance.now(). */
  #deadlineMs: number;
  /** Deadline of the transfer in progress, in ms of performance.now(). Received bytes extend it. */
  #dataEndMs = 0;

  constructor(socket: Socket, { services, address, isImplicitTls, refusal, onMailEnded, onClosed }: SessionOptions) {
    this.services = services;
    this.log = services.log;
    this.address = address;
    this.countedAddress = countedAddress(address);
    this.#onMailEnded = onMailEnded;
    this.#onClosed = onClosed;
    this.#deadlineMs = performance.now() + services.limits.idleMs;
    this.#refusal = refusal;
    this.#wire = new SessionWire(socket, {
      log: this.log,
      address,
      events: {
        onData: (chunk) => this.#receive(chunk),
        onEnd: () => this.#receiveEnd(),
        onDrain: () => this.#resume(),
        onClosed: () => this.#close(),
      },
    });
    if (isImplicitTls) this.#secure(() => this.#delayGreeting());
    else this.#delayGreeting();
  }

  /** Delays the greeting to detect clients that talk early. The delay is short for addresses with earlier logins. */
  #delayGreeting(): void {
    this.#phase = 'greeting';
    const { profile, limits } = this.services;
    const { greetingMs, knownGreetingMs } = limits;
    const waitMs = profile.knows(this.countedAddress) ? Math.min(greetingMs, knownGreetingMs) : greetingMs;
    setTimeout(() => this.#greet(), waitMs).unref();
  }

  #close(): void {
    this.#phase = 'closed';
    this.transfer?.abort();
    this.transfer = undefined;
    this.#input.clear();
    this.#onClosed();
  }

  #greet(): undefined {
    if (this.#phase !== 'greeting') return;
    if (this.#refusal !== undefined) return this.hangUp(this.#refusal);
    this.#phase = 'open';
    this.reply(`220 ${this.services.hostname} ESMTP Postrider`);
    this.#wire.flush();
  }

  #receive(chunk: Buffer): undefined {
    if (this.#phase === 'greeting') return this.hangUp('554 5.5.0 protocol error: data received before the greeting');
    if (this.#phase !== 'open') return;
    this.#input.push(chunk);
    if (!this.#isWaiting && (this.#input.length > this.#midLineBytes || chunk.includes(LF))) this.#pump();
    if (this.#input.length > MAX_QUEUED_BYTES) this.#wire.pause();
  }

  #resume(): void {
    if (this.#phase !== 'open' || this.#isWaiting) return;
    this.#wire.resume();
    this.#pump();
  }

  #receiveEnd(): void {
    this.#isEnded = true;
    if (!this.#isWaiting) this.#endQuietly();
  }

  /** Closes the session without a reply, and aborts a transfer in progress. */
  #endQuietly(): undefined {
    if (this.#phase === 'closing' || this.#phase === 'closed') return;
    this.#phase = 'closing';
    this.transfer?.abort();
    this.transfer = undefined;
    this.#deadlineMs = performance.now() + this.services.limits.lingerMs;
    this.#wire.end();
    this.#onMailEnded();
  }

  /** Processes the input until none is left or a command is in progress. */
  #pump(): void {
    const input = this.#input.bytes;
    this.#midLineBytes = 0;
    let at = 0;
    while (at < input.length && this.#midLineBytes === 0 && this.#canProcess()) {
      at = this.transfer === undefined ? this.#readLine(input, at) : this.#readContent(this.transfer, input, at);
    }
    if (this.#phase === 'open') this.#input.drop(at);
    else this.#input.clear();
    this.#wire.flush();
  }

  #canProcess(): boolean {
    return this.#phase === 'open' && !this.#isWaiting && !this.#wire.isFull();
  }

  /** Processes the line at `at`. Returns where the next line starts, or `at` if the end of the line has not arrived. */
  #readLine(input: Buffer, at: number): number {
    const end = input.indexOf(LF, at);
    if (this.#skippedBytes >= 0) return this.#skip(input, at, end);
    const bytes = (end === -1 ? input.length : end + 1) - at;
    const limit =
      this.takeLine === undefined
        ? commandLimit(input.toString('latin1', at, Math.min(at + 5, at + bytes)))
        : AUTH_BYTES;
    if (bytes > limit) {
      this.verb = undefined;
      this.#refuseLong(limit);
      if (end === -1) this.#skippedBytes = 0;
      return end === -1 ? input.length : end + 1;
    }
    if (end === -1) {
      this.#midLineBytes = limit;
      return at;
    }
    this.#deadlineMs = performance.now() + this.services.limits.idleMs;
    if (this.takeLine === undefined) this.verb = undefined;
    if (end === at || input[end - 1] !== CR) {
      const line = '500 5.5.2 lines must end with CR LF';
      if (this.takeLine === undefined) this.clientError(line);
      else malformedLogin(this, line);
    } else this.#runLine(lineText(input.subarray(at, end - 1)));
    return end + 1;
  }

  #runLine(text: string | undefined): void {
    const { takeLine } = this;
    let pending: Pending;
    // '?' is not valid Base64, so invalid text fails the AUTH exchange.
    if (takeLine !== undefined) pending = takeLine(text ?? '?');
    else if (text !== undefined) pending = runCommand(this, text);
    else pending = this.clientError('500 5.5.2 line has control characters or is not UTF-8');
    if (this.transfer !== undefined)
      this.#deadlineMs = this.#dataEndMs = performance.now() + this.services.limits.dataMs;
    if (pending !== undefined) this.#wait(pending);
  }

  #refuseLong(limit: number): void {
    if (this.takeLine !== undefined) void this.takeLine(undefined);
    else if (limit === AUTH_BYTES && this.services.profile.verbs.has('AUTH'))
      malformedLogin(this, '501 5.5.6 command too long');
    else this.clientError(`500 5.5.2 line too long: at most ${limit} bytes`);
  }

  #skip(input: Buffer, at: number, end: number): number {
    this.#skippedBytes += input.length - at;
    if (end === -1) {
      if (this.#skippedBytes > this.services.limits.maxDiscardBytes)
        this.hangUp('421 4.7.0 line too long; closing the connection');
      return input.length;
    }
    this.#skippedBytes = -1;
    return end + 1;
  }

  #readContent(transfer: MailTransfer, input: Buffer, at: number): number {
    const next = transfer.push(input, at);
    if (next === -1) {
      this.#extendData(input.length - at);
      const ready = transfer.untilReady();
      if (transfer.isEndless()) this.hangUp(TOO_LARGE(this.services.limits.maxMessageBytes));
      else if (ready !== undefined) this.#wait(ready, this.#deadlineMs);
      return input.length;
    }
    this.transfer = undefined;
    this.#isStoring = true;
    this.#wait(
      transfer.finish().then(({ line, accepted }) => {
        this.#isStoring = false;
        if (!accepted) noteRefused(this, line);
        this.reply(line);
        if (!accepted) return;
        this.#clientErrors = 0;
        this.fruitless = 0;
      }),
    );
    return next;
  }

  #extendData(bytes: number): void {
    const { dataMs, dataBytesPerSecond } = this.services.limits;
    this.#dataEndMs += (bytes / dataBytesPerSecond) * 1_000;
    this.#deadlineMs = Math.min(this.#dataEndMs, performance.now() + dataMs);
  }

  /** Queues further input until the work is done. Only `deadlineMs` limits the session in the meantime; there is no limit by default. */
  #wait(work: Promise<void>, deadlineMs = Number.POSITIVE_INFINITY): void {
    this.#isWaiting = true;
    this.#deadlineMs = deadlineMs;
    this.#wire.flush();
    work.then(
      () => this.#continue(),
      (error: unknown) => {
        this.log.error({ err: error }, 'SMTP command failed');
        this.hangUp('421 4.3.0 internal server error');
        this.#continue();
      },
    );
  }

  #continue(): undefined {
    this.#isWaiting = false;
    if (!this.hasMail()) this.#onMailEnded();
    if (this.#phase !== 'open') return;
    if (this.transfer === undefined) {
      this.#deadlineMs = performance.now() + this.services.limits.idleMs;
      if (this.#isDraining) return this.#hangUpOutsideCommand(STOPPING);
    }
    this.#resume();
    if (this.#isEnded && !this.#isWaiting) this.#endQuietly();
  }

  reply(line: string): undefined {
    if (this.login !== undefined && (line[0] === '4' || line[0] === '5')) {
      const { address, verb } = this;
      this.services.profile.onRefused?.({ caller: this.login.caller, address, verb, reply: cleanReply(line) });
    }
    this.#wire.add(line);
  }

  clientError(line: string): undefined {
    this.#clientErrors += 1;
    if (this.#clientErrors > this.services.limits.maxClientErrors) this.hangUp('421 4.7.0 too many errors');
    else this.reply(line);
  }

  hangUp(line: string): undefined {
    if (this.#phase === 'closing' || this.#phase === 'closed') return;
    this.reply(line);
    this.#endQuietly();
    // Read and discard further input: unread bytes would reset the connection, and the client would lose the last reply.
    this.#wire.resume();
  }

  /** Hangs up for a reason that is not the result of a command. */
  #hangUpOutsideCommand(line: string): undefined {
    if (!this.hasMail()) this.verb = undefined;
    this.hangUp(line);
  }

  get tlsProtocol(): string | null {
    return this.#wire.tlsProtocol;
  }

  startTls(): undefined {
    this.reply('220 2.0.0 go ahead');
    this.#wire.flush();
    this.helo = undefined;
    this.isExtended = false;
    this.envelope = undefined;
    // An attacker may have injected the bytes after STARTTLS (CVE-2011-0411): they are neither executed nor decrypted.
    this.#wire.discardInput();
    this.#secure(() => {
      this.#phase = 'open';
    });
  }

  /** Starts the TLS handshake, and calls `onSecure` when it is complete. */
  #secure(onSecure: () => void): void {
    this.#phase = 'handshake';
    this.#deadlineMs = performance.now() + this.services.limits.handshakeMs;
    this.#wire.startTls(this.services.tls.context(), () => {
      if (this.#phase !== 'handshake') return;
      this.isSecure = true;
      this.#deadlineMs = performance.now() + this.services.limits.idleMs;
      onSecure();
      if (this.#isDraining) this.hangUp(STOPPING);
    });
  }

  /** Ends the session if its deadline has passed. */
  checkDeadline(nowMs: number): undefined {
    if (nowMs < this.#deadlineMs) return;
    if (this.#phase === 'handshake' || this.#phase === 'closing') return this.destroy();
    this.#hangUpOutsideCommand('421 4.4.2 timeout; closing the connection');
  }

  /** Returns whether a message is in progress: from the 354 reply to the reply after the final dot. */
  hasMail(): boolean {
    return this.transfer !== undefined || this.#isStoring;
  }

  /** If a message has not been received completely, replies that the service is stopping, and ends the session. */
  giveUp(): void {
    if (this.transfer !== undefined) this.hangUp(STOPPING);
  }

  /** Ends the session as soon as no message is in progress. */
  drain(): void {
    this.#isDraining = true;
    if (this.#phase === 'handshake') return;
    if (this.transfer === undefined && !this.#isWaiting) this.#hangUpOutsideCommand(STOPPING);
  }

  destroy(): undefined {
    this.#wire.destroy();
  }
}
