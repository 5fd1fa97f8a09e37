/** Context in which the address of an erasure is sealed. */
export const sealContext = (erasureId: string): string => `erasure:${erasureId}`;
