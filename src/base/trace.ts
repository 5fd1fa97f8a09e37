/**
 * Traces across services: the W3C Trace Context header `traceparent`, and the spans that Postrider reports. A context is kept as the text of
 * the header, `00-<trace id>-<span id>-<flags>`, in requests, with messages, and in webhooks.
 */
import { randomBytes } from 'node:crypto';

/** A finished operation. */
export interface Span {
  /** The context that `begin` returned. */
  context: string;
  /** The context that was given to `begin`. */
  parent: string | undefined;
  name: string;
  kind: 'server' | 'client';
  /** Unix ms. */
  startMs: number;
  endMs: number;
  attributes: Readonly<Record<string, string | number | undefined>>;
  hasFailed: boolean;
}

export interface Tracer {
  /**
   * Returns the context of a new operation: a child of `parent`, or the start of a trace. Without an exporter, `parent` itself: then the
   * context is only passed on.
   */
  begin(parent: string | undefined): string | undefined;
  /** Reports an operation, if its trace is sampled. */
  end(span: Span): void;
}

/** Passes contexts on and reports nothing. */
export const NO_TRACER: Tracer = { begin: (parent) => parent, end: () => undefined };

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

export interface TraceContext {
  /** 32 hex digits. */
  traceId: string;
  /** 16 hex digits. */
  spanId: string;
  isSampled: boolean;
}

/** Reads a context; undefined if it is not valid (Trace Context §3.2.2). */
export function readContext(text: string | undefined): TraceContext | undefined {
  const [, traceId, spanId, flags] = (text !== undefined && text.length <= 256 && TRACEPARENT.exec(text)) || [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  // A version above 00 is read like 00, and 00 has nothing after the flags.
  if (text!.startsWith('00') && text!.length !== 55) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

function contextText({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

/** Returns the valid context of a `traceparent` header as Postrider passes it on; undefined if the header is absent or not valid. */
export function traceparentOf(header: string | string[] | undefined): string | undefined {
  const context = typeof header === 'string' ? readContext(header.trim()) : undefined;
  return context && contextText(context);
}

const hex = (bytes: number): string => randomBytes(bytes).toString('hex');

/** Returns the context of a child of `parent`; without a parent, of a trace that is sampled with this probability. */
export function childOf(parent: string | undefined, ratio: number): string {
  const { traceId, isSampled } = readContext(parent) ?? { traceId: hex(16), isSampled: Math.random() < ratio };
  return contextText({ traceId, spanId: hex(8), isSampled });
}
