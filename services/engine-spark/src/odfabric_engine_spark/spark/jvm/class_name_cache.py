"""Names of the JVM, each looked up once.

Owns the view of a gateway that remembers what a name stands for. Py4J asks the JVM again each time, which looks for `org`, `org.apache` and so on
as classes in all jars of Spark first: a tenth of the work of a small transaction. Invariant: what is remembered cannot change while the JVM lives, so
classes, packages and static methods, never values of static fields. Not here: objects (`tree_reader`), what classes are used for (`plan_nodes`).
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JavaPackage, JVMView


def remember_names(gateway: JavaGateway) -> None:
    """Gives a gateway such a view.

    Call it once nothing is imported into its view any more.
    """
    told = gateway.jvm
    gateway.jvm = _View(told._gateway_client, jvm_name=told._jvm_name, id=told._id)


class _View(JVMView):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remembered(self, name, super().__getattr__(name))


class _Package(JavaPackage):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        return _remembered(self, name, super().__getattr__(name))


class _Class(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return _remembered(self, name, found) if isinstance(found, JavaMember | JavaClass) else found


def _remembered(owner: object, name: str, found: Any) -> Any:
    """What is found is an attribute from now on, so that nobody is asked for it again."""
    if isinstance(found, JavaPackage):
        found = _Package(found._fqn, found._gateway_client, found._jvm_id)
    elif isinstance(found, JavaClass):
        found = _Class(found._fqn, found._gateway_client)
    # Two threads may both find it: what the second one sets is the same.
    vars(owner)[name] = found
    return found
