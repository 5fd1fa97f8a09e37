/** The API's messages about the fields of a form, by field. */
import { PostriderError } from '../api.ts';
import { sentence } from './sentence.ts';

export interface Issues {
  of(field: string): string | undefined;
  /** Errors about none of the fields. */
  general: Error | null;
}

export function issuesOf(error: Error | null, fields: readonly string[]): Issues {
  const details = error instanceof PostriderError ? error.details : [];
  const fieldOf = (path: string): string => path.replace(/[.[].*/, '');
  const of = (field: string): string | undefined => {
    const found = details.find((one) => fieldOf(one.field) === field);
    return found === undefined ? undefined : sentence(found.message);
  };
  const isShown = details.some(({ field }) => fields.includes(fieldOf(field)));
  return { of, general: isShown ? null : error };
}
