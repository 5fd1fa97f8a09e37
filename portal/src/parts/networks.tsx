/** The networks that a credential can be used from: as text, and the field that changes them and other short lists. */
import { TagsInput } from '@mantine/core';
import { keys } from '../texts/keys.ts';

export const NETWORKS_AT_MOST = 20;

export const networkText = (networks: readonly string[]): string =>
  networks.length === 0 ? keys.anyNetwork : networks.join(', ');

interface TagsProps {
  label: string;
  description: string;
  placeholder: string;
  maxTags: number;
  value: string[];
  onChange(value: string[]): void;
}

/** A list of short texts, separated as they are typed. */
export function Tags({ placeholder, ...props }: TagsProps) {
  return (
    <TagsInput
      placeholder={props.value.length === 0 ? placeholder : undefined}
      acceptValueOnBlur
      splitChars={[',', ' ', ';']}
      {...props}
    />
  );
}
