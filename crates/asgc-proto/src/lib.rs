//! The wire: generated messages and their conversion to and from core types.
