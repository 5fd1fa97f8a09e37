/** DNS answers from an object, for verifiers that get a function instead of a resolver. */
import type { QueryType, Resolve } from '../../src/mail-authentication/dns-query.ts';

/** Records by type, in the form of `QueryAnswer`; `fails` for a name whose queries fail. */
export type Answers = Record<string, Partial<Record<QueryType, string[]>> | 'fails'>;

/** Missing names do not exist. Names are in lower case; those of PTR records are addresses. `asked` collects the queries. */
export function answersFrom(zone: Answers, asked: string[] = []): Resolve {
  return async (name, type) => {
    asked.push(`${type} ${name}`);
    const records = zone[name.toLowerCase()];
    if (records === undefined) return { status: 'no-such-domain' };
    if (records === 'fails') return { status: 'temporary', cause: 'ESERVFAIL' };
    const value = records[type] ?? [];
    return value.length > 0 ? { status: 'found', value } : { status: 'no-data' };
  };
}
