/** A link to a path of the portal that can have a query, such as the path of a row of a list. */
import { Link } from '@tanstack/react-router';
import type { AnchorHTMLAttributes, Ref } from 'react';

interface PathLinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  href: string;
  ref?: Ref<HTMLAnchorElement>;
}

export function PathLink({ href, ...props }: PathLinkProps) {
  const [path, query] = href.split('?');
  const search = query === undefined ? undefined : Object.fromEntries(new URLSearchParams(query));
  return <Link to={path} search={search as never} {...props} />;
}
