/**
 * `/events/stream` as an endless async iterator: if the connection fails, falls silent or is closed by the service, a new one continues
 * after the last event, so none is skipped and none is repeated. Throws refusals that a retry does not resolve.
 */
import type { Caller, Query } from './call.ts';
import { PostriderError } from './error.ts';
import { backoffMs, type CallOptions, sleep } from './http.ts';
import type { Event } from './schema.ts';

export interface StreamOptions extends Pick<CallOptions, 'signal'> {
  /** From an earlier stream: this one continues after it. Without it, the stream starts with new events. */
  lastEventId?: string;
  /** A connection that is silent for longer is replaced; the service sends something every 15 seconds. 45,000 by default. */
  silenceMs?: number;
}

interface ServerSent {
  id?: string;
  data?: string;
  retryMs?: number;
}

/** Yields the messages of a stream of server-sent events (WHATWG HTML §9.2.6), without comments. */
export async function* serverSent(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSent> {
  const decoder = new TextDecoder();
  let rest = '';
  let message: ServerSent = {};
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop()!;
    for (const line of lines.map((one) => one.replace(/\r$/, ''))) {
      if (line === '') {
        yield message;
        message = {};
        continue;
      }
      const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!;
      if (name === 'id') message.id = value;
      else if (name === 'data') message.data = message.data === undefined ? value : `${message.data}\n${value}`;
      else if (name === 'retry') message.retryMs = Number(value);
    }
  }
}

async function* chunksOf(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      heard();
      yield read.value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

const SILENCE_MS = 45_000;

/** Ends when the loop over it is left, or its signal is aborted. */
export class EventStream implements AsyncIterable<Event> {
  /** Id of the last event that was returned: a later stream can continue after it. */
  lastEventId: string | undefined;
  readonly #caller: Caller;
  readonly #query: Query<'streamEvents'>;
  readonly #options: StreamOptions;
  /** The delay between two connections that the service asks for. */
  #retryMs: number | undefined;

  constructor(caller: Caller, query: Query<'streamEvents'>, options: StreamOptions) {
    this.#caller = caller;
    this.#query = query;
    this.#options = options;
    this.lastEventId = options.lastEventId;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    const { signal } = this.#options;
    for (let failures = 0; !signal?.aborted; ) {
      try {
        for await (const event of this.#connection()) {
          failures = 0;
          if (event !== undefined) yield event;
        }
        await sleep(this.#retryMs ?? backoffMs(2), signal);
      } catch (error) {
        if (signal?.aborted) return;
        if (!(error instanceof PostriderError) || !isPassing(error)) throw error;
        failures += 1;
        await sleep((error.retryAfterSeconds ?? 0) * 1000 || backoffMs(failures + 1), signal).catch(() => undefined);
      }
    }
  }

  /** Yields the events of one connection; undefined for other messages. */
  async *#connection(): AsyncGenerator<Event | undefined> {
    const silence = new AbortController();
    const silent = (): void => silence.abort();
    const { signal, silenceMs = SILENCE_MS } = this.#options;
    let timer = setTimeout(silent, silenceMs);
    const heard = (): void => {
      clearTimeout(timer);
      timer = setTimeout(silent, silenceMs);
    };
    try {
      const response = await this.#caller.open(
        'streamEvents',
        {
          query: this.#query,
          headers: this.lastEventId === undefined ? {} : { 'Last-Event-ID': this.lastEventId },
        },
        { signal: signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal]) },
      );
      for await (const { id, data, retryMs } of serverSent(chunksOf(response.body!, heard))) {
        if (id !== undefined) this.lastEventId = id;
        if (retryMs !== undefined) this.#retryMs = retryMs;
        yield data === undefined ? undefined : (JSON.parse(data) as Event);
      }
    } catch (cause) {
      if (cause instanceof PostriderError || signal?.aborted) throw cause;
      throw new PostriderError('The stream of events broke.', { code: 'CONNECTION_FAILED', cause });
    } finally {
      clearTimeout(timer);
    }
  }
}

const isPassing = ({ status }: PostriderError): boolean => status === 0 || status === 429 || status >= 500;
