export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Formats a message of the service as a sentence. */
export function sentence(text: string): string {
  const begun = capitalized(text);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
