/**
 * PATCH of resources that also have a PUT. A PATCH merges its fields into the stored resource and then runs the code of the PUT, so both
 * validate, authorize, and record a change in the same way. The write compares the stored resource with the one that was merged in its own
 * transaction, so concurrent changes of different fields are all kept.
 */
import type { TObject, TPartial, TProperties } from 'typebox';
import { failure, refuse } from '../base/failure.ts';
import type { RouteAnswer } from './route.ts';
import { Type } from './schema-type.ts';

/** Each retry means that another change succeeded, so only a constant stream of changes exceeds this. */
const MOST_ATTEMPTS = 20;

/** Returns the schema of a PATCH: the fields of the PUT, all optional. */
export function changeOf<P extends TProperties>(title: string, request: TObject<P>): TPartial<TObject<P>> {
  return Type.Partial(request, { title, additionalProperties: false }) as unknown as TPartial<TObject<P>>;
}

/** Returns the stored fields, replaced by the given ones; null counts as absent. */
export function merge<T extends object>(stored: T, given: { readonly [K in keyof T]?: T[K] | null | undefined }): T {
  const changed = Object.entries(given).filter(([, value]) => value !== null && value !== undefined);
  return { ...stored, ...(Object.fromEntries(changed) as Partial<T>) };
}

export const outdated = refuse(
  failure('CONFLICT', { message: 'Other requests keep changing this resource. Read it again, then retry.' }),
);

/** Repeats a read and a write until nothing else changed the resource between the two; CONFLICT after 20 attempts. */
export async function whileOutdated(attempt: () => Promise<RouteAnswer | 'outdated'>): Promise<RouteAnswer> {
  for (let count = 0; count < MOST_ATTEMPTS; count += 1) {
    const answer = await attempt();
    if (answer !== 'outdated') return answer;
  }
  return outdated;
}
