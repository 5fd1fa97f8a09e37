/** What the body of a delivery tells of its event. */
export interface EventBody {
  messageId?: unknown;
  recipient?: unknown;
}

/** Undefined where there is none any more. */
export function eventIn(body: string | null | undefined): EventBody | undefined {
  try {
    return (JSON.parse(body ?? 'null') as EventBody | null) ?? undefined;
  } catch {
    return undefined;
  }
}
