/** Details of an event from the body of its delivery. */
export interface EventBody {
  messageId?: unknown;
  recipient?: unknown;
}

/** Undefined if the body is no longer stored. */
export function eventIn(body: string | null | undefined): EventBody | undefined {
  try {
    return (JSON.parse(body ?? 'null') as EventBody | null) ?? undefined;
  } catch {
    return undefined;
  }
}
